package worker

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/servers/testdb"
	"github.com/qrtz-go/qrtz/schema"
)

func TestBind(t *testing.T) {
	for _, c := range []struct {
		statement, query string
		args             []any
	}{
		{"SELECT 1", "SELECT 1", nil},
		{"SELECT :run_id, :job_id", "SELECT ?, ?", []any{int64(11), int64(12)}},
		{":attempt:fence", "??", []any{2, int64(14)}},
		{"SELECT '10:30', ':run_id', \":node\", `a:node`, :node", "SELECT '10:30', ':run_id', \":node\", `a:node`, ?", []any{"node-1"}},
		{`SELECT 'it''s :run_id', 'a\' :run_id', "b\" :run_id", '?'`, `SELECT 'it''s :run_id', 'a\' :run_id', "b\" :run_id", '?'`, nil},
		{"SELECT `a\\`, :run_id", "SELECT `a\\`, ?", []any{int64(11)}},
		{"/* :x ' ? */ SELECT :run_id -- :y '\n, :run_id # :z\n, 1--:run_id", "/* :x ' ? */ SELECT ? -- :y '\n, ? # :z\n, 1--?", []any{int64(11), int64(11), int64(11)}},
		{"SET @a := 1, @b:=2", "SET @a := 1, @b:=2", nil},
		{"SELECT ':open", "SELECT ':open", nil},
		{"SELECT /* :open", "SELECT /* :open", nil},
		{"/*/ :inside */", "/*/ :inside */", nil},
		{"a :now b", "a " + schema.NowMillisSQL + " b", nil},
		{"größe = ':é' AND :fire_time", "größe = ':é' AND ?", []any{int64(1_800_000_000_123)}},
		{":", ":", nil},
		{"--", "--", nil},
	} {
		query, args, err := bind(c.statement, aRun())
		require.NoError(t, err, c.statement)
		assert.Equal(t, c.query, query, c.statement)
		assert.Equal(t, c.args, args, c.statement)
	}
	_, _, err := bind("SELECT :RUN_ID", aRun())
	assert.ErrorContains(t, err, "in lower case")
}

func FuzzTokensJoinToTheStatement(f *testing.F) {
	f.Add("SELECT ':a', :b -- c\n/* d */ ? `e`")
	f.Fuzz(func(t *testing.T, statement string) {
		assert.Equal(t, statement, strings.Join(tokens(statement), ""))
	})
}

func TestSQLRecordsTheRun(t *testing.T) {
	db := testdb.New(t)
	_, err := db.ExecContext(t.Context(), `CREATE TABLE T (RUN BIGINT, EXECUTE BIGINT NULL, JOB BIGINT, FIRE BIGINT, ATTEMPT INT, NODE VARCHAR(50), NOW BIGINT, NOTE VARCHAR(50))`)
	require.NoError(t, err)
	statement := `INSERT INTO T VALUES (:run_id, :execute_id, :job_id, :fire_time, :attempt, :node, :now, '10:30 ? :run_id')`
	data, err := json.Marshal(map[string]string{"statement": statement})
	require.NoError(t, err)
	run := aRun()
	run.Node = `it's "me"`
	require.NoError(t, sqlClass{db}.run(t.Context(), run, data))
	run.ScheduleID = 0
	require.NoError(t, sqlClass{db}.run(t.Context(), run, data))

	var fire, now int64
	var node, note string
	require.NoError(t, db.QueryRowContext(t.Context(), `SELECT FIRE, NODE, NOW, NOTE FROM T WHERE RUN = 11 AND EXECUTE = 13 AND JOB = 12 AND ATTEMPT = 2`).Scan(&fire, &node, &now, &note))
	assert.Equal(t, run.FireTime.UnixMilli(), fire)
	assert.Equal(t, run.Node, node)
	assert.Equal(t, "10:30 ? :run_id", note)
	assert.WithinDuration(t, time.Now(), time.UnixMilli(now), time.Minute)
	var without int
	require.NoError(t, db.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM T WHERE EXECUTE IS NULL`).Scan(&without))
	assert.Equal(t, 1, without)
}

func TestSQLSaysWhatTheServerSays(t *testing.T) {
	err := sqlClass{testdb.New(t)}.run(t.Context(), aRun(), json.RawMessage(`{"statement": "INSERT INTO NOPE VALUES (:run_id)"}`))
	assert.ErrorContains(t, err, "class sql: Error 1146")
}
