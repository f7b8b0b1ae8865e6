package magnetar.tools;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import org.apache.pulsar.admin.cli.PulsarAdminTool;

/** Runs commands of pulsar-admin, one for each line of its input: URL, then words, between tabs. */
public final class Main {

    private static final Map<String, Tool> TOOLS = new HashMap<>();

    /** Has what pulsar-admin keeps for its own package. */
    private static final class Tool extends PulsarAdminTool {
        Tool(Properties properties) throws Exception {
            super(properties);
        }

        boolean play(String[] words) {
            return run(words);
        }

        String commands() {
            var found = new TreeSet<String>();
            commander.getSubcommands().forEach((group, line) -> line.getSubcommands().forEach((name, command) -> {
                if (!command.getCommandSpec().usageMessage().hidden()) {
                    found.add(group + " " + command.getCommandName());
                }
            }));
            return String.join("\n", found);
        }
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        var printed = new ByteArrayOutputStream();
        var both = new PrintStream(printed, true, StandardCharsets.UTF_8) {
            @Override
            public void close() { // which some commands do, and others keep it
                flush();
            }
        };
        System.setOut(both);
        System.setErr(both);
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split("\t", -1);
            printed.reset();
            boolean worked = answer(words[0], Arrays.copyOfRange(words, 1, words.length));
            String text = printed.toString(StandardCharsets.UTF_8).replace("\\", "\\\\").replace("\n", "\\n");
            answers.println((worked ? "ok " : "failed ") + text);
        }
        System.exit(0); // clients have threads of their own
    }

    private static boolean answer(String url, String[] words) {
        try {
            return run(url, words);
        } catch (Exception error) {
            error.printStackTrace();
            return false;
        }
    }

    private static boolean run(String url, String[] words) throws Exception {
        Tool tool = TOOLS.get(url);
        if (tool == null) {
            var properties = new Properties();
            properties.setProperty("webServiceUrl", url);
            tool = new Tool(properties);
            TOOLS.put(url, tool);
        }
        if (words[words.length - 1].equals("commands")) {
            System.out.println(tool.commands());
            return true;
        }
        return tool.play(words);
    }

    private Main() {
    }
}
