// A service for the filter `ext`, with the JDK alone: PORT=9100 java Service.java
// The JDK has no JSON: this reads what it needs by patterns, which is enough for a document whose writer is known. A
// real service would use a library.

import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.concurrent.Executors;
import java.util.regex.Pattern;

public class Service {
    /** A text of JSON, without its quotes. */
    private static final String TEXT = "\"([^\"\\\\]*+(?:\\\\.[^\"\\\\]*+)*+)\"";
    private static final Pattern KEY = Pattern.compile("\\[\"(?i:x-api-key)\"," + TEXT + "\\]");
    private static final Pattern PATH = Pattern.compile("[{,]\"path\":" + TEXT);
    private static final Pattern BODY = Pattern.compile("[{,]\"body_base64\":" + TEXT);

    private static String find(Pattern pattern, String document) {
        var found = pattern.matcher(document);
        return found.find() ? found.group(1) : "";
    }

    /** The answer to a request: see docs/guide/ext.md for what may stand in either. */
    static String decide(String question) {
        if (!find(KEY, question).equals("secret")) {
            return "{\"decision\":\"respond\",\"status\":401,\"fields\":{\"X-Reason\":\"no key\"},"
                + "\"body\":\"a key is needed\\n\"}";
        }
        var body = Base64.getDecoder().decode(find(BODY, question));
        if (new String(body, StandardCharsets.ISO_8859_1).contains("attack")) {
            return "{\"decision\":\"respond\",\"status\":403,\"body\":\"not this\\n\","
                + "\"reason\":\"the body has an attack\"}";
        }
        // The text is still as JSON has it, so that it can be written as it is.
        var path = find(PATH, question);
        var moved = path.startsWith("/old/") ? ",\"path\":\"/new/" + path.substring("/old/".length()) + "\"" : "";
        return "{\"decision\":\"continue\",\"set_fields\":{\"X-User\":\"ada\"},"
            + "\"remove_fields\":[\"X-Api-Key\"]" + moved + "}";
    }

    public static void main(String[] arguments) throws Exception {
        var port = Integer.parseInt(System.getenv().getOrDefault("PORT", "9100"));
        var server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 0);
        server.createContext("/", exchange -> {
            try (exchange) {
                var question = new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
                var answer = decide(question).getBytes(StandardCharsets.UTF_8);
                exchange.getResponseHeaders().set("Content-Type", "application/json");
                exchange.sendResponseHeaders(200, answer.length);
                exchange.getResponseBody().write(answer);
            }
        });
        server.setExecutor(Executors.newCachedThreadPool());
        server.start();
        System.out.println("port " + server.getAddress().getPort());
    }
}
