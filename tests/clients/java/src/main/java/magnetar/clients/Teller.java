package magnetar.clients;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.PrintStream;

/** Asks the program that started this one for what only that one can do. */
final class Teller {
    private final BufferedReader input;
    private final PrintStream output;

    Teller(BufferedReader input, PrintStream output) {
        this.input = input;
        this.output = output;
    }

    synchronized String ask(String what) throws IOException {
        output.println("ask " + what);
        var answer = input.readLine();
        if (answer == null || answer.startsWith("failed")) {
            throw new IOException(what + ": " + answer);
        }
        return answer;
    }
}
