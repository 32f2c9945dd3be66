package main_test

import (
	"database/sql"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTheStatementsOfTheDocs runs every statement for operators on real tables; those with parameters are handlers'.
func TestTheStatementsOfTheDocs(t *testing.T) {
	s := newSite(t)
	db, err := sql.Open("mysql", strings.TrimPrefix(s.env[0], "QRTZ_DSN=")+"&multiStatements=true")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	ran := 0
	for _, page := range []string{"runs.md", "sql-console.md", "../README.md", "../UPGRADING.md"} {
		text, err := os.ReadFile("../../docs/" + page)
		require.NoError(t, err)
		for i, block := range strings.Split(string(text), "```sql\n") {
			statements, _, found := strings.Cut(block, "```")
			if i == 0 || !found || strings.ContainsAny(statements, "?…") && !strings.Contains(statements, "* * ?") && !strings.Contains(statements, "? *") {
				continue
			}
			_, err := db.ExecContext(t.Context(), statements)
			assert.NoError(t, err, "%s:\n%s", page, statements)
			ran++
		}
	}
	assert.GreaterOrEqual(t, ran, 7)
}
