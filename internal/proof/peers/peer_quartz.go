package main

import (
	"archive/zip"
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

//go:embed quartz/Node.java
var quartzSource embed.FS

// quartzPeer is Quartz in one database of qrtz's server.
type quartzPeer struct {
	*mariadb
	db      *sql.DB
	dir     string // of its classes
	classes string // class path
	tables  string // SQL, from its own jar
	name    string // of the database
}

const (
	jarFolder = "/usr/share/java"
	tablesSQL = "org/quartz/impl/jdbcjobstore/tables_mysql_innodb.sql"
)

// quartzJars are what Debian's packages call them.
var quartzJars = map[string]string{
	"quartz2.jar": "libquartz2-java", "mariadb-java-client.jar": "libmariadb-java", "HikariCP.jar": "libhikaricp-java",
	"slf4j-api.jar": "libslf4j-java", "slf4j-simple.jar": "libslf4j-java",
}

// openQuartz compiles its node.
func openQuartz(ctx context.Context, m *mariadb) (*quartzPeer, error) {
	javac, compiles := find("javac")
	_, runs := find("java")
	if !compiles || !runs {
		return nil, absent("a JDK", "default-jdk-headless libquartz2-java libmariadb-java libhikaricp-java")
	}
	q := &quartzPeer{mariadb: m}
	for _, jar := range slices.Sorted(maps.Keys(quartzJars)) {
		path := filepath.Join(jarFolder, jar)
		if _, err := os.Stat(path); err != nil {
			return nil, absent(path, quartzJars[jar])
		}
		q.classes += path + ":"
	}
	err := q.prepare(ctx, javac)
	if err != nil {
		q.close()
		return nil, err
	}
	return q, nil
}

func (q *quartzPeer) prepare(ctx context.Context, javac string) (err error) {
	if q.tables, err = fromJar(filepath.Join(jarFolder, "quartz2.jar"), tablesSQL); err != nil {
		return err
	}
	if q.dir, err = directory("quartz", nil); err != nil {
		return err
	}
	source, err := quartzSource.ReadFile("quartz/Node.java")
	if err != nil {
		return err
	}
	path := filepath.Join(q.dir, "Node.java")
	if err := os.WriteFile(path, source, 0o600); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, javac, "-d", q.dir, "-cp", q.classes, path)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compile its node: %w\n%s", err, text)
	}
	q.classes += q.dir
	return nil
}

// fromJar reads a file in a jar.
func fromJar(jar, name string) (text string, err error) {
	z, err := zip.OpenReader(jar)
	if err != nil {
		return "", err
	}
	defer func() { _ = z.Close() }()
	f, err := z.Open(name)
	if err != nil {
		return "", err
	}
	all, err := io.ReadAll(f)
	return string(all), errors.Join(err, f.Close())
}

// statements are those of a script, without its comments.
func statements(script string) (all []string) {
	var text strings.Builder
	for l := range strings.Lines(script) {
		if !strings.HasPrefix(strings.TrimSpace(l), "#") {
			text.WriteString(l)
		}
	}
	for one := range strings.SplitSeq(text.String(), ";") {
		if one = strings.TrimSpace(one); one != "" {
			all = append(all, one)
		}
	}
	return all
}

func (q *quartzPeer) fresh(ctx context.Context) (string, error) {
	q.closeDB()
	var err error
	if q.name, err = q.mariadb.fresh(ctx); err != nil {
		return "", err
	}
	dsn := q.DSN(q.name)
	if q.db, err = sql.Open("mysql", dsn); err != nil {
		return "", err
	}
	for _, one := range statements(q.tables) {
		if _, err := q.db.ExecContext(ctx, one); err != nil {
			return "", fmt.Errorf("its tables: %w", err)
		}
	}
	return dsn, nil
}

// store puts schedules into the tables that fire once a second.
func (q *quartzPeer) store(ctx context.Context, _ fireSetting, groups []group) error {
	var jobs, schedules, simple [][]any
	for i, t := range phases(groups) {
		job, name := fmt.Sprintf("job-%d", i/perJob), fmt.Sprintf("schedule-%d", i)
		if i%perJob == 0 {
			jobs = append(jobs, []any{app, job, "g", "Node$Tick", "1", "0", "0", "0"})
		}
		schedules = append(schedules, []any{app, name, "g", job, "g", t, -1, 5, "WAITING", "SIMPLE", t, 0, 0})
		simple = append(simple, []any{app, name, "g", -1, 1000, 0})
	}
	return errors.Join(
		insert(ctx, q.db, `QRTZ_JOB_DETAILS (SCHED_NAME, JOB_NAME, JOB_GROUP, JOB_CLASS_NAME, IS_DURABLE, IS_NONCONCURRENT, IS_UPDATE_DATA, REQUESTS_RECOVERY)`, jobs),
		insert(ctx, q.db, `QRTZ_TRIGGERS (SCHED_NAME, TRIGGER_NAME, TRIGGER_GROUP, JOB_NAME, JOB_GROUP, NEXT_FIRE_TIME, PREV_FIRE_TIME, PRIORITY,
 TRIGGER_STATE, TRIGGER_TYPE, START_TIME, END_TIME, MISFIRE_INSTR)`, schedules),
		insert(ctx, q.db, `QRTZ_SIMPLE_TRIGGERS (SCHED_NAME, TRIGGER_NAME, TRIGGER_GROUP, REPEAT_COUNT, REPEAT_INTERVAL, TIMES_TRIGGERED)`, simple),
	)
}

func (q *quartzPeer) lead(int) time.Duration { return 6 * time.Second } // until three JVMs have started

func (q *quartzPeer) start(dsn, id string, f fireSetting, windows []span) (*process, error) {
	settings, err := quartzSettings(dsn, id, f, windows)
	if err != nil {
		return nil, err
	}
	java, _ := find("java")
	return start(java, []string{"-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", q.classes, "Node"}, []string{"PEERS_QUARTZ=" + settings})
}

// quartzSettings are the properties of a node.
func quartzSettings(dsn, id string, f fireSetting, windows []span) (string, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return "", err
	}
	var spans []string
	for _, w := range windows {
		spans = append(spans, fmt.Sprintf("%d-%d", w.From.UnixMicro(), w.Until.UnixMicro()))
	}
	var text strings.Builder
	for _, p := range [][2]string{
		{"windows", strings.Join(spans, ",")},
		{"org.quartz.scheduler.instanceName", app},
		{"org.quartz.scheduler.instanceId", id},
		{"org.quartz.scheduler.skipUpdateCheck", "true"},
		{"org.quartz.scheduler.batchTriggerAcquisitionMaxCount", fmt.Sprint(f.batch)},
		{"org.quartz.threadPool.class", "org.quartz.simpl.SimpleThreadPool"},
		{"org.quartz.threadPool.threadCount", fmt.Sprint(f.workers)},
		{"org.quartz.jobStore.class", "org.quartz.impl.jdbcjobstore.JobStoreTX"},
		{"org.quartz.jobStore.driverDelegateClass", "org.quartz.impl.jdbcjobstore.StdJDBCDelegate"},
		{"org.quartz.jobStore.isClustered", "true"},
		{"org.quartz.jobStore.acquireTriggersWithinLock", fmt.Sprint(f.batch > 1)},
		{"org.quartz.jobStore.dataSource", "db"},
		{"org.quartz.dataSource.db.provider", "hikaricp"},
		{"org.quartz.dataSource.db.driver", "org.mariadb.jdbc.Driver"},
		{"org.quartz.dataSource.db.URL", "jdbc:mariadb://" + cfg.Addr + "/" + cfg.DBName},
		{"org.quartz.dataSource.db.user", cfg.User},
		{"org.quartz.dataSource.db.password", cfg.Passwd},
		{"org.quartz.dataSource.db.maxConnections", fmt.Sprint(f.workers + 2)}, // as its documentation says
	} {
		fmt.Fprintf(&text, "%s=%s\n", p[0], p[1])
	}
	return text.String(), nil
}

func (q *quartzPeer) closeDB() {
	if q.db != nil {
		_ = q.db.Close()
		q.db = nil
	}
}

func (q *quartzPeer) close() {
	q.closeDB()
	if q.dir != "" {
		_ = os.RemoveAll(q.dir)
	}
}
