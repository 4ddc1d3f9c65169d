import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** java ExpectContinue.java URL BYTES [URL BYTES …]: POSTs a body of spaces with Expect: 100-continue, prints statuses. */
public class ExpectContinue {
    public static void main(String[] args) throws Exception {
        HttpClient client = HttpClient.newHttpClient();
        for (int i = 0; i < args.length; i += 2) {
            byte[] body = " ".repeat(Integer.parseInt(args[i + 1])).getBytes();
            HttpRequest request = HttpRequest.newBuilder(URI.create(args[i]))
                .timeout(Duration.ofSeconds(20))
                .expectContinue(true)
                .header("content-type", "application/json")
                .POST(HttpRequest.BodyPublishers.ofByteArray(body))
                .build();
            CompletableFuture<HttpResponse<String>> reply =
                client.sendAsync(request, HttpResponse.BodyHandlers.ofString());
            System.out.println(reply.get(30, TimeUnit.SECONDS).statusCode()); // JDK 17 hangs past the request's timeout
        }
        System.exit(0); // the client's threads would go on
    }
}
