package schema_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/testdb"
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

func TestAnotherPrefix(t *testing.T) {
	db := testdb.New(t)
	up(t, db, schema.DefaultPrefix)
	exec(t, db, insertAppV13+`('a', 'Y', 0, 0, 0)`)
	up(t, db, "my_") // beside the default ones, in one database
	assert.Equal(t, "'0'", one(t, db, `SELECT COUNT(*) FROM my_V_APP`), "its views read its tables")

	own := testdb.New(t)
	up(t, own, "my_")
	for _, line := range layout(t, own) {
		assert.NotContains(t, line, "QRTZ_")
	}
	for _, name := range []string{"my_APP_STATE", "my_EXECUTE_DUE", "my_V_RUN", "my_RUN_FIRE"} {
		assert.Contains(t, strings.Join(layout(t, own), "\n"), "'"+name+"'")
	}
}

func TestInvalidPrefixesAreRefused(t *testing.T) {
	db := testdb.New(t)
	for _, p := range []schema.Prefix{"", "_x", "1x", "a-b", "a`b", "a b", "a;DROP TABLE x", "x\n", "ü_", "a.b_", schema.Prefix(strings.Repeat("x", 21))} {
		require.Error(t, p.Validate(), "%q", p)
		_, err := schema.Up(t.Context(), db, p)
		require.Error(t, err, "%q", p)
		_, err = schema.Print(p)
		require.Error(t, err, "%q", p)
		require.Error(t, schema.Check(t.Context(), db, p), "%q", p)
	}
	assert.Empty(t, layout(t, db))
	for _, p := range []schema.Prefix{"q", "QRTZ_", "Team7_qrtz_", schema.Prefix(strings.Repeat("x", 20))} {
		assert.NoError(t, p.Validate(), "%q", p)
	}
}
