import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/** What the JVM makes of values: "double BITS" and "utf8 BYTES", in hex, one a line; answers with the text and its hash. */
public class TextOfValues {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String hex = line.substring(line.indexOf(' ') + 1);
            String text = line.startsWith("double")
                ? Double.toString(Double.longBitsToDouble(Long.parseUnsignedLong(hex, 16)))
                : new String(java.util.HexFormat.of().parseHex(hex), StandardCharsets.UTF_8);
            out.println(text.hashCode() + " " + text);
        }
        out.flush();
    }
}
