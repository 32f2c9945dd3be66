package main_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/qrtz-go/qrtz/internal/servers/testdb"
)

func TestMigrate(t *testing.T) {
	env := []string{"QRTZ_DSN=" + testdb.DSN(t)}
	assert.Contains(t, run(t, env, "migrate", "status").stdout, "1  missing  version_1_3\n2  missing  cluster\n")
	assert.Contains(t, run(t, env, "node", "run", "--app", "a").stderr, "run `qrtz migrate up`")
	r := run(t, env, "migrate", "up")
	assert.Zero(t, r.code)
	assert.Contains(t, r.stdout, "migration 1 (version_1_3) done\n")
	assert.Empty(t, r.stderr)
	assert.Contains(t, run(t, env, "migrate", "up").stdout, "up to date: the QRTZ_ tables")
	assert.Contains(t, run(t, env, "migrate", "status", "--json").stdout, `"applied": true`)
	assert.Contains(t, run(t, env, "migrate", "status", "--prefix", "OTHER_").stdout, "1  missing")
	assert.Contains(t, run(t, env, "migrate", "print", "--prefix", "OTHER_").stdout, "CREATE TABLE IF NOT EXISTS OTHER_APP")
}
