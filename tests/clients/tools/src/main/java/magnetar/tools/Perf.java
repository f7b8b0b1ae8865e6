package magnetar.tools;

import java.util.Arrays;
import org.apache.pulsar.testclient.CmdBase;
import org.apache.pulsar.testclient.PerformanceConsumer;
import org.apache.pulsar.testclient.PerformanceProducer;
import org.apache.pulsar.testclient.PerformanceReader;

/** The commands of pulsar-perf for clients; its own program also loads those for stores of a broker. */
public final class Perf {

    public static void main(String[] words) throws Exception {
        CmdBase command = switch (words[0]) {
            case "produce" -> new PerformanceProducer();
            case "consume" -> new PerformanceConsumer();
            default -> new PerformanceReader();
        };
        System.exit(command.run(Arrays.copyOfRange(words, 1, words.length)) ? 0 : 1);
    }

    private Perf() {
    }
}
