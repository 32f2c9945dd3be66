package main_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/servers/testdb"
)

func TestAWrongDSN(t *testing.T) {
	for _, c := range []struct{ dsn, says string }{
		{"root:secret@tcp(127.0.0.1:1)", "--dsn: invalid DSN: missing the slash"},
		{"root:secret@tcp(127.0.0.1:1)/", "--dsn names no database"},
		{"root:secret@tcp(127.0.0.1:1)/x?loc=Nowhere/At", "--dsn: "},
		{"root:secret@tcp(127.0.0.1:1)/x?collation=gbk_chinese_ci", "--dsn: "},
		{"root:secret@tcp(127.0.0.1:1)/x", `cannot use database x of tcp(127.0.0.1:1) as user "root": `},
	} {
		r := run(t, []string{"QRTZ_DSN=unused"}, "migrate", "status", "--dsn", c.dsn)
		assert.Equal(t, 1, r.code)
		assert.Contains(t, r.stderr, c.says)
		assert.NotContains(t, r.stderr, "secret")
	}
	r := run(t, []string{"QRTZ_DSN=nonsense"}, "migrate", "status")
	assert.Contains(t, r.stderr, "QRTZ_DSN: invalid DSN")
	assert.Contains(t, r.stderr, "for example 'user:password@tcp(127.0.0.1:3306)/mydb'")
	r = run(t, nil, "migrate", "status", "--dsn", "a@tcp(127.0.0.1:1)/x", "--prefix", "1;")
	assert.Contains(t, r.stderr, "--prefix: ")
}

// A value could become a part of a statement.
func TestADSNInWhoseCharacterSetAQuoteCanHideIsRefused(t *testing.T) {
	dsn := testdb.DSN(t)
	and := "?"
	if strings.Contains(dsn, "?") {
		and = "&"
	}
	for _, charset := range []string{"charset=gbk", "charset=big5", "charset=sjis", "character_set_client=gbk", "charset=utf8mb4&character_set_client=big5"} {
		for _, args := range [][]string{{"job", "list"}, {"migrate", "up"}, {"node", "run", "--app", "a"}, {"demo", "--for", "5s"}} {
			r := run(t, []string{"QRTZ_DSN=" + dsn + and + charset}, args...)
			assert.Equal(t, 1, r.code, charset)
			assert.Contains(t, r.stderr, "a quote can hide", charset)
		}
	}
	assert.Zero(t, run(t, []string{"QRTZ_DSN=" + dsn + and + "charset=utf8mb4"}, "migrate", "up").code)
}

func TestTablesMustBeUpToDate(t *testing.T) {
	r := run(t, []string{"QRTZ_DSN=" + testdb.DSN(t)}, "job", "list")
	assert.Equal(t, 1, r.code)
	assert.Contains(t, r.stderr, "qrtz migrate up")
}

// TestAnotherPrefix runs every statement there is on tables of another name.
func TestAnotherPrefix(t *testing.T) {
	s := site{t: t, env: []string{"QRTZ_DSN=" + testdb.DSN(t)}}
	s.ok("migrate", "up", "--prefix", "X_")
	for _, args := range []string{"app list", "node list", "job list", "execute list", "run list", "history clean --older-than 1d --yes"} {
		assert.Contains(t, []string{"none\n", "deleted no runs\n"}, s.ok(append(strings.Fields(args), "--prefix", "X_")...))
	}
	for _, args := range []string{"app start a", "node drain n", "job run j", "execute pause 1", "run retry 1"} {
		assert.Contains(t, s.fails(1, append(strings.Fields(args), "--prefix", "X_")...), "there is no ")
	}
}

// TestThePrivateServer also sees that nothing is left running: the directory's server is gone with the command.
func TestThePrivateServer(t *testing.T) {
	dir := t.TempDir()
	env := []string{"XDG_DATA_HOME=" + dir}
	r := run(t, env, "migrate", "up")
	require.Zero(t, r.code)
	assert.Equal(t, "qrtz: no --dsn and no QRTZ_DSN: using the private server in "+filepath.Join(dir, "qrtz")+", database qrtz\n", r.stderr)
	assert.NoFileExists(t, filepath.Join(dir, "qrtz", "s.sock"))
	assert.Contains(t, run(t, env, "migrate", "up").stdout, "up to date", "the data is kept")
}
