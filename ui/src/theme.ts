// Light or dark: as the system says, until somebody chooses.
const KEY = "thalweg.theme";
const system = matchMedia("(prefers-color-scheme: dark)");

const chosen = (): string | null => localStorage.getItem(KEY);

export function applyTheme(): void {
  document.documentElement.dataset.theme = chosen() ?? (system.matches ? "dark" : "light");
  window.dispatchEvent(new Event("theme"));
}

export function turnTheme(): void {
  localStorage.setItem(KEY, document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  applyTheme();
}

system.addEventListener("change", applyTheme);
