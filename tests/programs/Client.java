import java.io.ByteArrayInputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublisher;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/**
 * A client that uses what java.net.http has for HTTP/1.1, against the service of tests/scenario/runtimes.rs.
 *
 * <p>Its argument is the base URL. It ends with 0 when every answer was what it has to be, and otherwise says what was
 * not.
 */
public final class Client {
    /** Time for one exchange: a busy machine and a debug build need some of it. */
    private static final Duration PATIENCE = Duration.ofSeconds(20);
    /** Requests side by side. */
    private static final int TOGETHER = 100;
    /** Bytes of the body under /large. */
    private static final int LARGE = 10_000_000;
    /** Bytes of an upload that fits no buffer on its way. */
    private static final int UPLOAD = 16 << 20;

    private static final HttpClient CLIENT =
            HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).connectTimeout(PATIENCE).build();

    private static String base;

    private Client() {}

    public static void main(String[] arguments) throws Exception {
        base = arguments[0];
        oneAfterAnother();
        sideBySide();
        uploads();
        expectContinue();
        largeBody();
        if (arguments.length == 1) {
            earlyResponse();
        }
        System.out.println("all served");
        // The client's threads would keep the process.
        System.exit(0);
    }

    private static HttpRequest.Builder request(String method, String path, BodyPublisher body) {
        return HttpRequest.newBuilder(URI.create(base + path)).timeout(PATIENCE).method(method, body);
    }

    private static HttpRequest get(String path) {
        return request("GET", path, BodyPublishers.noBody()).build();
    }

    private static HttpResponse<String> wants(HttpRequest request, int status, String text) throws Exception {
        return checked(CLIENT.send(request, BodyHandlers.ofString()), status, text);
    }

    private static HttpResponse<String> checked(HttpResponse<String> answer, int status, String text) {
        if (answer.statusCode() != status || !answer.body().equals(text)) {
            HttpRequest request = answer.request();
            throw new IllegalStateException(request.method() + " " + request.uri() + ": " + answer.statusCode() + " "
                    + answer.body() + " instead of " + status + " " + text);
        }
        return answer;
    }

    private static void oneAfterAnother() throws Exception {
        for (int number = 0; number < 50; number++) {
            String path = "/echo/" + number + "?q=" + number;
            wants(get(path), 200, "GET " + path + " 0");
        }
        HttpResponse<String> head = wants(request("HEAD", "/echo/head", BodyPublishers.noBody()).build(), 200, "");
        long length = head.headers().firstValueAsLong("content-length").orElse(-1);
        if (length != "HEAD /echo/head 0".length()) {
            throw new IllegalStateException("HEAD: length " + length);
        }
        // What follows a bodiless answer must not be taken for its body.
        wants(request("DELETE", "/empty", BodyPublishers.noBody()).build(), 204, "");
        wants(get("/echo/after"), 200, "GET /echo/after 0");
    }

    private static void sideBySide() {
        for (int turn = 0; turn < 10; turn++) {
            List<CompletableFuture<?>> all = new ArrayList<>();
            for (int number = 0; number < TOGETHER; number++) {
                String path = "/echo/" + turn + "/" + number;
                String body = "x".repeat(number * turn);
                all.add(CLIENT.sendAsync(request("POST", path, BodyPublishers.ofString(body)).build(),
                                BodyHandlers.ofString())
                        .thenAccept(answer -> checked(answer, 200, "POST " + path + " " + body.length())));
            }
            all.forEach(CompletableFuture::join);
        }
    }

    private static void uploads() throws Exception {
        byte[] body = new byte[3_000_000];
        wants(request("PUT", "/echo/up", BodyPublishers.ofByteArray(body)).build(), 200, "PUT /echo/up 3000000");
        // A stream of unknown length goes in chunks, and so does the answer of /chunks, with trailers.
        BodyPublisher stream = BodyPublishers.ofInputStream(() -> new ByteArrayInputStream(body));
        wants(request("PUT", "/echo/up", stream).build(), 200, "PUT /echo/up 3000000");
        wants(request("PUT", "/chunks", stream).build(), 200, "PUT /chunks 3000000");
    }

    private static void expectContinue() throws Exception {
        HttpRequest request =
                request("POST", "/echo/expect", BodyPublishers.ofString("hello")).expectContinue(true).build();
        wants(request, 200, "POST /echo/expect 5");
    }

    private static void largeBody() throws Exception {
        HttpResponse<byte[]> answer = CLIENT.send(get("/large"), BodyHandlers.ofByteArray());
        byte[] body = answer.body();
        if (answer.statusCode() != 200 || body.length != LARGE) {
            throw new IllegalStateException(answer.statusCode() + " with " + body.length + " bytes");
        }
        for (int at = 0; at < body.length; at++) {
            if (body[at] != (byte) (at % 251)) {
                throw new IllegalStateException("byte " + at + " is " + body[at]);
            }
        }
    }

    private static void earlyResponse() throws Exception {
        HttpRequest upload = request("POST", "/early", BodyPublishers.ofByteArray(new byte[UPLOAD])).build();
        wants(upload, 413, "too large");
        // Whatever became of that connection, the next request is served.
        wants(get("/echo/last"), 200, "GET /echo/last 0");
    }
}
