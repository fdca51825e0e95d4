import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;

import org.apache.kafka.common.utils.Exit;

/**
 * Runs a tool's main method again and again in one JVM, so that thousands of runs take seconds.
 *
 * Request on stdin: int count, then count strings. Response on stdout: int exit code, stdout, stderr, the
 * exception that left main ("" if none). A string is an int length and that many bytes of UTF-8.
 */
public class DumpServer {
    /** Thrown in place of leaving the JVM. */
    private static class Exited extends Error {
        final int code;

        Exited(int code) {
            super(null, null, false, false);
            this.code = code;
        }
    }

    /** Scala remembers the first System.out it sees: what is behind it changes, the stream itself never. */
    private static class Switch extends OutputStream {
        ByteArrayOutputStream sink = new ByteArrayOutputStream();

        @Override
        public void write(int b) {
            sink.write(b);
        }

        @Override
        public void write(byte[] b, int off, int len) {
            sink.write(b, off, len);
        }

        byte[] take() {
            byte[] taken = sink.toByteArray();
            sink = new ByteArrayOutputStream();
            return taken;
        }
    }

    public static void main(String[] args) throws Exception {
        DataInputStream requests = new DataInputStream(System.in);
        DataOutputStream responses = new DataOutputStream(System.out);
        Switch out = new Switch();
        Switch err = new Switch();
        // The stream a console gets: characters that UTF-8 cannot hold become '?' in it.
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        Exit.setExitProcedure((code, message) -> {
            throw new Exited(code);
        });
        Exit.setHaltProcedure((code, message) -> {
            throw new Exited(code);
        });
        Method main = Class.forName(args[0]).getMethod("main", String[].class);
        while (true) {
            String[] arguments;
            try {
                arguments = readArguments(requests);
            } catch (EOFException end) {
                return;
            }
            answer(main, arguments, out, err, responses);
        }
    }

    private static String[] readArguments(DataInputStream requests) throws Exception {
        String[] arguments = new String[requests.readInt()];
        for (int i = 0; i < arguments.length; i++) {
            arguments[i] = new String(requests.readNBytes(requests.readInt()), StandardCharsets.UTF_8);
        }
        return arguments;
    }

    private static void answer(Method main, String[] arguments, Switch out, Switch err, DataOutputStream responses)
            throws Exception {
        int code = 0;
        String exception = "";
        try {
            main.invoke(null, (Object) arguments);
        } catch (InvocationTargetException wrapped) {
            Throwable thrown = wrapped.getCause();
            if (thrown instanceof Exited) {
                code = ((Exited) thrown).code;
            } else {
                code = 1;
                exception = thrown.toString();
            }
        }
        System.out.flush();
        System.err.flush();
        responses.writeInt(code);
        write(responses, out.take());
        write(responses, err.take());
        write(responses, exception.getBytes(StandardCharsets.UTF_8));
        responses.flush();
    }

    private static void write(DataOutputStream responses, byte[] text) throws Exception {
        responses.writeInt(text.length);
        responses.write(text);
    }
}
