package thalweg;

import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.cloud.netflix.eureka.server.EnableEurekaServer;
import org.springframework.context.annotation.ComponentScan;
import org.springframework.context.annotation.FilterType;

/** A Eureka server. */
@SpringBootApplication
@EnableEurekaServer
@ComponentScan(excludeFilters = @ComponentScan.Filter(type = FilterType.REGEX, pattern = "thalweg\\.Service"))
public class Registry {
    public static void main(String[] arguments) {
        Started.run(Registry.class, arguments);
    }
}
