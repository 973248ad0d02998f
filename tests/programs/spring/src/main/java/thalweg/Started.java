package thalweg;

import java.io.IOException;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.context.event.ApplicationReadyEvent;
import org.springframework.boot.web.context.WebServerInitializedEvent;
import org.springframework.context.ApplicationListener;

/** Says its port on standard error when it is ready, and ends with the test: when its standard input ends. */
final class Started {
    private Started() {}

    static void run(Class<?> application, String[] arguments) {
        Thread end = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {}
            } catch (IOException gone) {
                // As an end.
            }
            Runtime.getRuntime().halt(0);
        });
        end.setDaemon(true);
        end.start();
        int[] port = new int[1];
        SpringApplication spring = new SpringApplication(application);
        spring.addListeners((ApplicationListener<WebServerInitializedEvent>) event ->
                port[0] = event.getWebServer().getPort());
        spring.addListeners((ApplicationListener<ApplicationReadyEvent>) event ->
                System.err.println("port " + port[0]));
        spring.run(arguments);
    }
}
