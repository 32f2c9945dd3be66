package schema_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/servers/testdb"
	"github.com/qrtz-go/qrtz/schema"
)

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
