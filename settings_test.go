package qrtz_test

import (
	"bytes"
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz"
	"github.com/qrtz-go/qrtz/internal/testdb"
)

func TestANodeSaysWhenItStartsThatTheServerMayLoseCommits(t *testing.T) {
	server := testdb.Server(t, "--innodb-flush-log-at-trx-commit=0", "--sync-binlog=1")
	admin, err := sql.Open("mysql", server.DSN(""))
	require.NoError(t, err)
	_, err = admin.Exec(`CREATE DATABASE settings`)
	require.NoError(t, err)
	require.NoError(t, admin.Close())
	db, err := sql.Open("mysql", server.DSN("settings"))
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	require.NoError(t, qrtz.Migrate(t.Context(), db))

	var lines bytes.Buffer
	log := zerolog.New(zerolog.SyncWriter(&lines))
	cfg := quick("n1")
	cfg.Logger = &log
	s, err := qrtz.Open(db, cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	require.Eventually(t, func() bool {
		var n int
		return db.QueryRow(`SELECT COUNT(*) FROM QRTZ_NODE WHERE INSTANCE IS NOT NULL`).Scan(&n) == nil && n == 1
	}, 10*time.Second, 20*time.Millisecond)
	cancel()
	require.NoError(t, <-done)
	require.Contains(t, lines.String(), `"level":"warn","setting":"innodb_flush_log_at_trx_commit","value":"0","want":"1"`)
}
