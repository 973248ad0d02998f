package thalweg;

import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.ComponentScan;
import org.springframework.context.annotation.FilterType;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;

/** A service that registers with a Eureka server and answers with what `--answer` says. */
@SpringBootApplication
@RestController
@ComponentScan(excludeFilters = @ComponentScan.Filter(type = FilterType.REGEX, pattern = "thalweg\\.Registry"))
public class Service {
    @Value("${answer}")
    private String answer;

    @GetMapping("/**")
    public String answer() {
        return answer;
    }

    public static void main(String[] arguments) {
        Started.run(Service.class, arguments);
    }
}
