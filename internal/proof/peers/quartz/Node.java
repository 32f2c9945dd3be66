import java.io.StringReader;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Date;
import java.util.List;
import java.util.Properties;

import org.quartz.Job;
import org.quartz.JobExecutionContext;
import org.quartz.Scheduler;
import org.quartz.SchedulerMetaData;
import org.quartz.impl.StdSchedulerFactory;

/**
 * A node of Quartz in a measurement. Its settings are in the environment, since they hold a password. It says on
 * its standard output, one JSON object a line, what the nodes of the others say, and ends when its standard input does.
 */
public final class Node {
    /** A part of the measurement, in microseconds since 1970, and how late what started in it was. */
    static final class Window {
        final long from, until;
        final List<Long> late = new ArrayList<>();

        Window(long from, long until) {
            this.from = from;
            this.until = until;
        }
    }

    static final List<Window> windows = new ArrayList<>();

    static long micros() {
        return ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now());
    }

    /** What is due: it notes when it starts. */
    public static final class Tick implements Job {
        @Override
        public void execute(JobExecutionContext context) {
            long now = micros();
            Date fire = context.getScheduledFireTime();
            synchronized (windows) {
                for (Window w : windows) {
                    if (w.from <= now && now < w.until) {
                        w.late.add(now - 1000 * fire.getTime());
                    }
                }
            }
        }
    }

    /** Waits for the end of each window, and reports it. */
    static void report() {
        for (int i = 0; i < windows.size(); i++) {
            Window w = windows.get(i);
            try {
                Thread.sleep(Math.max(0, (w.until - micros()) / 1000 + 1));
            } catch (InterruptedException e) {
                return;
            }
            synchronized (windows) {
                say("{\"window\":{\"index\":" + i + ",\"late\":" + w.late.toString().replace(" ", "") + "}}");
            }
        }
    }

    static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    public static void main(String[] args) throws Exception {
        Properties p = new Properties();
        p.load(new StringReader(System.getenv("PEERS_QUARTZ")));
        for (String window : p.getProperty("windows", "").split(",")) {
            if (!window.isEmpty()) {
                String[] ends = window.split("-");
                windows.add(new Window(Long.parseLong(ends[0]), Long.parseLong(ends[1])));
            }
        }
        Scheduler scheduler = new StdSchedulerFactory(p).getScheduler();
        scheduler.start();
        SchedulerMetaData about = scheduler.getMetaData();
        say("{\"ready\":\"Quartz " + about.getVersion() + ", Java " + System.getProperty("java.version") + "\"}");
        Thread reporter = new Thread(Node::report);
        reporter.setDaemon(true);
        reporter.start();
        while (System.in.read() >= 0) {
            // until the parent closes it, or is gone
        }
        scheduler.shutdown(true);
        say("{\"end\":{}}");
        System.exit(0);
    }
}
