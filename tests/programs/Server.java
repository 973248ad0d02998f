import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.concurrent.Executors;

/**
 * The service of tests/scenario/runtimes.rs, as the server of the JDK serves it: without trailers, which it does not
 * have. It says its port on standard error.
 */
public final class Server {
    /** Bytes of the body under /large. */
    private static final int LARGE = 10_000_000;

    private Server() {}

    public static void main(String[] arguments) throws IOException {
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.setExecutor(Executors.newCachedThreadPool());
        byte[] large = new byte[LARGE];
        for (int at = 0; at < LARGE; at++) {
            large[at] = (byte) (at % 251);
        }
        server.createContext("/echo/", exchange -> echo(exchange, false));
        server.createContext("/chunks", exchange -> echo(exchange, true));
        server.createContext("/empty", exchange -> answer(exchange, 204, -1, new byte[0]));
        server.createContext("/early", exchange -> {
            exchange.getResponseHeaders().set("Connection", "close");
            answer(exchange, 413, "too large".length(), "too large".getBytes());
        });
        server.createContext("/large", exchange -> answer(exchange, 200, LARGE, large));
        server.start();
        System.err.println("port " + server.getAddress().getPort());
    }

    private static void echo(HttpExchange exchange, boolean chunked) throws IOException {
        String method = exchange.getRequestMethod();
        long bytes = exchange.getRequestBody().transferTo(OutputStream.nullOutputStream());
        byte[] text = (method + " " + exchange.getRequestURI() + " " + bytes).getBytes();
        if (method.equals("HEAD")) {
            exchange.getResponseHeaders().set("Content-Length", String.valueOf(text.length));
            answer(exchange, 200, -1, new byte[0]);
        } else {
            // A length of 0 stands for chunks here.
            answer(exchange, 200, chunked ? 0 : text.length, text);
        }
    }

    private static void answer(HttpExchange exchange, int status, long length, byte[] body) throws IOException {
        try (exchange) {
            exchange.sendResponseHeaders(status, length);
            exchange.getResponseBody().write(body);
        }
    }
}
