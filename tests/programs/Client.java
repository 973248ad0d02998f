import java.io.ByteArrayInputStream;
import java.io.InputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublisher;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/**
 * A client that uses what java.net.http has, against the service of tests/scenario/runtimes.rs.
 *
 * <p>Its arguments are the base URL and what it speaks: nothing for HTTP/1.1, {@code h2} and the file of the
 * certificate that it trusts, or {@code upgrade} for its own default without TLS, an offer to change from HTTP/1.1 to
 * HTTP/2. It ends with 0 when every answer was what it has to be, and otherwise says what was not.
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

    private static HttpClient client;
    private static HttpClient.Version version = HttpClient.Version.HTTP_1_1;
    private static String base;

    private Client() {}

    public static void main(String[] arguments) throws Exception {
        base = arguments[0];
        String speaks = arguments.length > 1 ? arguments[1] : "";
        HttpClient.Builder builder = HttpClient.newBuilder().connectTimeout(PATIENCE).version(version);
        if (speaks.equals("h2")) {
            version = HttpClient.Version.HTTP_2;
            builder.version(version).sslContext(trusting(Path.of(arguments[2])));
        } else if (speaks.equals("upgrade")) {
            // RFC 9113 has given that up, and the answers stay what they are.
            builder.version(HttpClient.Version.HTTP_2);
        }
        client = builder.build();
        oneAfterAnother();
        sideBySide();
        uploads();
        expectContinue();
        largeBody();
        // The client of JDK 17 does not show an answer before it has sent its body, whoever serves HTTP/2.
        if (!speaks.equals("h2") && !speaks.equals("no early response")) {
            earlyResponse();
        }
        System.out.println("all served");
        // The client's threads would keep the process.
        System.exit(0);
    }

    private static SSLContext trusting(Path file) throws Exception {
        KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
        trusted.load(null);
        try (InputStream pem = Files.newInputStream(file)) {
            CertificateFactory x509 = CertificateFactory.getInstance("X.509");
            trusted.setCertificateEntry("the proxy's", x509.generateCertificate(pem));
        }
        TrustManagerFactory managers = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        managers.init(trusted);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, managers.getTrustManagers(), null);
        return context;
    }

    private static HttpRequest.Builder request(String method, String path, BodyPublisher body) {
        return HttpRequest.newBuilder(URI.create(base + path)).timeout(PATIENCE).method(method, body);
    }

    private static HttpRequest get(String path) {
        return request("GET", path, BodyPublishers.noBody()).build();
    }

    private static HttpResponse<String> wants(HttpRequest request, int status, String text) throws Exception {
        return checked(client.send(request, BodyHandlers.ofString()), status, text);
    }

    private static HttpResponse<String> checked(HttpResponse<String> answer, int status, String text) {
        if (answer.statusCode() != status || !answer.body().equals(text) || answer.version() != version) {
            HttpRequest request = answer.request();
            throw new IllegalStateException(request.method() + " " + request.uri() + ": " + answer.statusCode() + " "
                    + answer.body() + " by " + answer.version() + " instead of " + status + " " + text + " by "
                    + version);
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
                all.add(client.sendAsync(request("POST", path, BodyPublishers.ofString(body)).build(),
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
        HttpResponse<byte[]> answer = client.send(get("/large"), BodyHandlers.ofByteArray());
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
