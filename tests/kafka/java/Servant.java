import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;

/** Has the `answer` of a class called for every line of JSON, and writes a line of JSON back. See java_client.py. */
public class Servant {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err);
        Method method = Class.forName(args[0]).getDeclaredMethod("answer", JsonNode.class);
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            answers.println(JSON.writeValueAsString(answer(method, JSON.readTree(line))));
            answers.flush();
        }
    }

    private static ObjectNode answer(Method method, JsonNode call) throws Exception {
        ObjectNode answer = JSON.createObjectNode();
        try {
            answer.set("result", (JsonNode) method.invoke(null, call));
        } catch (InvocationTargetException thrown) {
            StringWriter trace = new StringWriter();
            thrown.getCause().printStackTrace(new PrintWriter(trace));
            answer.put("error", trace.toString());
        }
        return answer;
    }
}
