package schema_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/servers/testdb"
	"github.com/qrtz-go/qrtz/schema"
)

// What is mistyped in a SQL console must not become a state that no program knows.
func TestTheServerRefusesMistypedStates(t *testing.T) {
	for _, prefix := range []schema.Prefix{schema.DefaultPrefix, "my_"} {
		db := testdb.New(t)
		up(t, db, prefix)
		for _, row := range []string{insertAppV13 + `('a', 'Y', 0, 0, 0)`, insertNodeV13 + `('a', 'n', 'h', 'Y', 0)`} {
			exec(t, db, prefix.SQL(row))
		}
		exec(t, db, prefix.SQL(`INSERT INTO QRTZ_JOB (ID, APPLICATION, JOB_CLASS) VALUES (1, 'a', 'c')`))
		exec(t, db, prefix.SQL(`INSERT INTO QRTZ_EXECUTE (ID, PID, JOB_TYPE, STATE) VALUES (1, 1, 'CRON', 'INIT')`))
		exec(t, db, prefix.SQL(`INSERT INTO QRTZ_RUN (ID, APPLICATION, JOB_ID, FIRE_TIME) VALUES (1, 'a', 1, 1700000000000)`))
		for _, set := range []string{
			`QRTZ_APP SET STATE = 'X'`, `QRTZ_APP SET STATE = 'y'`, `QRTZ_APP SET STATE = 'Y '`, `QRTZ_APP SET STATE = ''`,
			`QRTZ_NODE SET STATE = 'n'`, `QRTZ_NODE SET STATE = '?'`,
			`QRTZ_JOB SET STATE = 'executing'`, `QRTZ_JOB SET STATE = 'RUNNING'`,
			`QRTZ_EXECUTE SET STATE = 'executing'`, `QRTZ_EXECUTE SET STATE = 'PAUSE'`,
			`QRTZ_EXECUTE SET JOB_TYPE = 'cron'`, `QRTZ_EXECUTE SET MISFIRE = 'skip'`,
			`QRTZ_RUN SET STATE = 'pending'`, `QRTZ_RUN SET STATE = 'EXECUTING'`,
		} {
			_, err := db.ExecContext(t.Context(), prefix.SQL(`UPDATE `+set))
			assert.Contains(t, []uint16{4025, 3819}, number(err), "%s: %v", set, err)
		}
		for _, set := range []string{`QRTZ_APP SET STATE = 'N'`, `QRTZ_NODE SET STATE = 'N'`, `QRTZ_JOB SET STATE = 'PAUSED'`, `QRTZ_EXECUTE SET STATE = 'EXECUTING'`} {
			exec(t, db, prefix.SQL(`UPDATE `+set))
		}
	}
}

func TestTheServerRefusesNonsense(t *testing.T) {
	const lowest, highest = "-9223372036854775808", "9223372036854775807"
	times := []string{"1", seconds, "-2", "99999999999", "253402300800000", lowest, highest}
	refused := map[string][]string{
		"QRTZ_NODE SET STOPPED_BY_APP":    {"2", "-1", "127"},
		"QRTZ_NODE SET HANDLERS":          {"''", "'http'", "'[\"http\"'"},
		"QRTZ_JOB SET RECOVERY":           {"2", "-1"},
		"QRTZ_JOB SET QUEUE_LIMIT":        {"-1"},
		"QRTZ_JOB SET ATTEMPTS":           {"0", "-1"},
		"QRTZ_JOB SET KEEP_RUNS":          {"-1"},
		"QRTZ_EXECUTE SET REPEAT_COUNT":   {"-2"},
		"QRTZ_EXECUTE SET CATCH_UP_LIMIT": {"-1"},
		"QRTZ_RUN SET ATTEMPT":            {"0", "-1", "2147483647"},
		"QRTZ_RUN SET FIRE_COUNT":         {"0", "-1"},
		"QRTZ_RUN SET RECOVERIES":         {"-1"},
		"QRTZ_RUN SET PROGRESS":           {"-1", "101"},
		"QRTZ_HEARTBEAT SET BEATS":        {"-1"},
		"QRTZ_JOB SET MAX_RUNNING":        {"-1", "10001"},
		"QRTZ_JOB SET PRIORITY":           {"-2", "2"},
		"QRTZ_RUN SET KEY_LIVE":           {"0", "2", "-1"},
		"QRTZ_RUN SET KEY_ONCE":           {"2", "-1"},
		"QRTZ_RUN SET OVERLAP_SLOT":       {"-1", "10000"},
		"QRTZ_RUN SET ATTEMPTS":           {"0", "-1"},
		"QRTZ_RUN SET PRIORITY":           {"-2", "2"},
	}
	allowed := map[string][]string{
		"QRTZ_NODE SET STOPPED_BY_APP": {"0", "1"}, "QRTZ_NODE SET HANDLERS": {"NULL", `'[]'`, `'["http"]'`},
		"QRTZ_JOB SET RECOVERY": {"0", "1"}, "QRTZ_EXECUTE SET REPEAT_COUNT": {"NULL", "-1", "0", "2147483647"},
		"QRTZ_EXECUTE SET TIME_TRIGGERED": {"NULL", "-1", "0", "8999999999999999999"},
		"QRTZ_JOB SET MAX_RUNNING":        {"0", "10000"}, "QRTZ_JOB SET PRIORITY": {"-1", "0", "1"}, "QRTZ_RUN SET KEY_LIVE": {"NULL", "1"},
		"QRTZ_RUN SET KEY_ONCE": {"0", "1"}, "QRTZ_RUN SET OVERLAP_SLOT": {"9999", "0"}, "QRTZ_RUN SET ATTEMPTS": {"NULL", "1"},
		"QRTZ_RUN SET PRIORITY": {"NULL", "-1", "1"},
		"QRTZ_RUN SET PROGRESS": {"NULL", "0", "100"}, "QRTZ_RUN SET CANCEL_AT": {"1"},
		"QRTZ_APP SET TIME_NEXT": {"-1", "0", "1", seconds}, "QRTZ_NODE SET TIME_CHECK": {"-1", "0", "1"},
	}
	for _, duration := range []string{"QRTZ_JOB SET RUN_TIMEOUT", "QRTZ_JOB SET BACKOFF", "QRTZ_JOB SET MAX_BACKOFF", "QRTZ_JOB SET KEEP_FOR", "QRTZ_RUN SET RUN_TIMEOUT"} {
		refused[duration], allowed[duration] = []string{"-1", lowest, highest}, []string{"0", "3153600000000"}
	}
	refused["QRTZ_EXECUTE SET REPEAT_INTERVAL"], allowed["QRTZ_EXECUTE SET REPEAT_INTERVAL"] = []string{"-2", highest}, []string{"NULL", "-1", "0", "3153600000000"}
	for _, number := range []string{"QRTZ_EXECUTE SET FENCE", "QRTZ_RUN SET FENCE"} {
		refused[number], allowed[number] = []string{"-1", highest}, []string{"0", "8999999999999999999"}
	}
	refused["QRTZ_EXECUTE SET TIME_TRIGGERED"] = []string{"-2", highest}
	for _, column := range []string{
		"QRTZ_EXECUTE SET START_TIME", "QRTZ_EXECUTE SET END_TIME", "QRTZ_EXECUTE SET PREV_FIRE_TIME", "QRTZ_EXECUTE SET NEXT_FIRE_TIME",
		"QRTZ_EXECUTE SET PAUSED_AT", "QRTZ_NODE SET HEARTBEAT_AT", "QRTZ_NODE SET JOINED_AT", "QRTZ_NODE SET OFF_SINCE", "QRTZ_NODE SET OFF_SEEN_AT",
		"QRTZ_NODE SET APP_OFF_SINCE", "QRTZ_NODE SET APP_OFF_SEEN_AT", "QRTZ_HEARTBEAT SET BEAT_AT",
		"QRTZ_RUN SET FIRE_TIME", "QRTZ_RUN SET LAST_FIRE_TIME", "QRTZ_RUN SET AVAILABLE_AT",
	} {
		refused[column], allowed[column] = times, []string{"-1", "0", "100000000000", aTime, "253402300799999"}
	}

	db := filled(t)
	for set, values := range refused {
		for _, v := range values {
			_, err := db.ExecContext(t.Context(), `UPDATE `+set+` = `+v)
			assert.Contains(t, []uint16{4025, 3819}, number(err), "%s = %s: %v", set, v, err)
		}
	}
	for set, values := range allowed {
		for _, v := range values {
			_, err := db.ExecContext(t.Context(), `UPDATE `+set+` = `+v)
			assert.NoError(t, err, "%s = %s", set, v)
		}
	}
	var text []byte
	for _, migration := range []string{"0007_contained.sql", "0008_promises.sql"} {
		more, err := os.ReadFile(filepath.Join("migrations", migration))
		require.NoError(t, err)
		text = append(text, more...)
	}
	for _, m := range regexp.MustCompile(`ADD CONSTRAINT (\w+) CHECK`).FindAllStringSubmatch(string(text), -1) {
		name := strings.Replace(m[1], "QRTZ_", "", 1)
		table, column, _ := strings.Cut(name, "_")
		assert.Contains(t, refused, "QRTZ_"+table+" SET "+column, "%s is not tried", m[1])
	}
}

// What is there may break the rules. Where it has one meaning, that is what it becomes.
func TestRowsThatBreakARuleAreMended(t *testing.T) {
	db := filled(t)
	testdb.DropChecks(t, db)
	for _, statement := range []string{
		`UPDATE QRTZ_NODE SET STOPPED_BY_APP = 2, HANDLERS = 'http', HEARTBEAT_AT = 5, JOINED_AT = -7, OFF_SINCE = 1, OFF_SEEN_AT = 1, APP_OFF_SINCE = 1, APP_OFF_SEEN_AT = 1`,
		`UPDATE QRTZ_JOB SET RECOVERY = 7, QUEUE_LIMIT = -3, RUN_TIMEOUT = -1, ATTEMPTS = 0, BACKOFF = 9223372036854775807, MAX_BACKOFF = -9, KEEP_FOR = -1, KEEP_RUNS = -1`,
		`UPDATE QRTZ_EXECUTE SET START_TIME = ` + seconds + `, END_TIME = 9223372036854775807, PREV_FIRE_TIME = 5, NEXT_FIRE_TIME = ` + seconds + `, PAUSED_AT = 3,
			REPEAT_COUNT = -7, REPEAT_INTERVAL = -5, TIME_TRIGGERED = -9, CATCH_UP_LIMIT = -1, FENCE = -1`,
		`INSERT INTO QRTZ_EXECUTE (ID, PID, JOB_TYPE, STATE, REPEAT_INTERVAL, START_TIME, END_TIME, NEXT_FIRE_TIME) VALUES
			(2, 1, 'SIMPLE', 'EXECUTING', 7000, 5, -1, ` + aTime + `), (3, 1, 'SIMPLE', 'COMPLETE', 7000, -2, ` + seconds + `, NULL),
			(4, 1, 'CRON', 'EXECUTING', 9223372036854775807, 0, 0, -5)`,
		`UPDATE QRTZ_RUN SET AVAILABLE_AT = ` + seconds + `, ATTEMPT = 0, FENCE = -1, FIRE_COUNT = 0, RECOVERIES = -1, PROGRESS = 700`,
		`DELETE FROM QRTZ_SCHEMA WHERE VERSION = 7`,
	} {
		exec(t, db, statement)
	}
	changed := one(t, db, `SELECT SWITCHED_AT, (SELECT MAX(CHANGED_AT) FROM QRTZ_EXECUTE) FROM QRTZ_NODE`)
	require.Len(t, up(t, db, schema.DefaultPrefix), 1)
	assert.Equal(t, "'1' NULL NULL NULL NULL NULL NULL NULL", one(t, db, `SELECT STOPPED_BY_APP, HANDLERS, HEARTBEAT_AT, JOINED_AT, OFF_SINCE,
		OFF_SEEN_AT, APP_OFF_SINCE, APP_OFF_SEEN_AT FROM QRTZ_NODE`))
	assert.Equal(t, "'1' '0' '0' '1' '3153600000000' '0' '0' '0'", one(t, db, `SELECT RECOVERY, QUEUE_LIMIT, RUN_TIMEOUT, ATTEMPTS, BACKOFF, MAX_BACKOFF, KEEP_FOR, KEEP_RUNS FROM QRTZ_JOB`))
	const execute = `SELECT START_TIME, END_TIME, PREV_FIRE_TIME, NEXT_FIRE_TIME, PAUSED_AT, REPEAT_COUNT, REPEAT_INTERVAL, TIME_TRIGGERED, CATCH_UP_LIMIT, FENCE FROM QRTZ_EXECUTE WHERE ID = `
	assert.Equal(t, "'0' '-1' '-1' NULL '0' '-1' '-1' '-1' '0' '0'", one(t, db, execute+"1"))
	assert.Equal(t, "'100000005005'", one(t, db, `SELECT START_TIME FROM QRTZ_EXECUTE WHERE ID = 2`), "5 and whole intervals: its fires are the same")
	assert.Equal(t, "'0' '100000000000'", one(t, db, `SELECT START_TIME, END_TIME FROM QRTZ_EXECUTE WHERE ID = 3`))
	assert.Equal(t, "'0' NULL", one(t, db, `SELECT REPEAT_INTERVAL, NEXT_FIRE_TIME FROM QRTZ_EXECUTE WHERE ID = 4`))
	assert.Equal(t, "'0' '1' '0' '1' '0' '100'", one(t, db, `SELECT AVAILABLE_AT, ATTEMPT, FENCE, FIRE_COUNT, RECOVERIES, PROGRESS FROM QRTZ_RUN`))
	assert.Equal(t, changed, one(t, db, `SELECT SWITCHED_AT, (SELECT MAX(CHANGED_AT) FROM QRTZ_EXECUTE) FROM QRTZ_NODE`), "no person switched or changed anything")

	fresh := testdb.New(t)
	up(t, fresh, schema.DefaultPrefix)
	for _, name := range []string{"QRTZ_EXECUTE_START_TIME", "QRTZ_NODE_HANDLERS", "QRTZ_RUN_PROGRESS", "QRTZ_JOB_ATTEMPTS", "QRTZ_HEARTBEAT_BEATS"} {
		assert.Contains(t, strings.Join(layout(t, db), "\n"), "'"+name+"'")
	}
}

// Where only a person knows what was meant, nothing is changed, and the rows are named.
func TestRowsThatNobodyCanMendAreNamed(t *testing.T) {
	db := filled(t)
	testdb.DropChecks(t, db)
	exec(t, db, `DELETE FROM QRTZ_SCHEMA WHERE VERSION = 7`)
	exec(t, db, `UPDATE QRTZ_JOB SET ATTEMPTS = 0`)
	for i := range 12 {
		exec(t, db, fmt.Sprintf(`INSERT INTO QRTZ_EXECUTE (ID, PID, JOB_TYPE, STATE, REPEAT_INTERVAL, START_TIME) VALUES (%d, 1, 'SIMPLE', 'EXECUTING', 1000, %s)`, 100+i, seconds))
	}
	exec(t, db, `UPDATE QRTZ_EXECUTE SET TIME_TRIGGERED = 9223372036854775807, FENCE = 9223372036854775807, NEXT_FIRE_TIME = 9223372036854775807 WHERE ID = 1`)
	exec(t, db, `UPDATE QRTZ_RUN SET FIRE_TIME = 1, ATTEMPT = 2147483647`)
	_, err := schema.Up(t.Context(), db, schema.DefaultPrefix)
	require.Error(t, err)
	for _, part := range []string{
		"nothing was changed", `QRTZ_EXECUTE.START_TIME is wrong where ID is 100 ("1700000000"), 101 (`, `109 ("1700000000"), and more; correct it first: milliseconds since 1970`,
		`QRTZ_EXECUTE.TIME_TRIGGERED is wrong where ID is 1 ("9223372036854775807")`, "QRTZ_EXECUTE.FENCE", "QRTZ_EXECUTE.NEXT_FIRE_TIME",
		`QRTZ_RUN.FIRE_TIME is wrong where ID is 1 ("1")`, "QRTZ_RUN.ATTEMPT",
	} {
		assert.ErrorContains(t, err, part)
	}
	assert.NotContains(t, err.Error(), "110")
	assert.Equal(t, "'0'", one(t, db, `SELECT ATTEMPTS FROM QRTZ_JOB`), "what could be mended was not")

	page, err := os.ReadFile(filepath.Join("..", "UPGRADING.md"))
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	require.NotEmpty(t, blocks)
	for _, block := range blocks {
		for _, statement := range split(block[1]) {
			exec(t, db, statement)
		}
	}
	require.Len(t, up(t, db, schema.DefaultPrefix), 1, "after the statements of UPGRADING.md")
}
