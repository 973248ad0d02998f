// What the session may do: buttons that change something are there for those who may.
import { createContext } from "preact";
import { useContext } from "preact/hooks";

export namespace Role {
  export type Name = "read" | "write";
  export const Context = createContext<Name>("read");
}

export const useMayWrite = (): boolean => useContext(Role.Context) === "write";
