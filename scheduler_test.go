package qrtz_test

import (
	"bytes"
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz"
	"github.com/qrtz-go/qrtz/internal/servers/testdb"
)

func TestANodeDoesNotStartWhereAQuoteCanHide(t *testing.T) {
	c := newCluster(t)
	dsn := c.dsn + "&character_set_client=gbk"
	if !strings.Contains(c.dsn, "?") {
		dsn = c.dsn + "?character_set_client=gbk"
	}
	db, err := sql.Open("mysql", dsn)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	s, err := qrtz.Open(db, quick("n1"))
	require.NoError(t, err)
	err = s.Run(context.Background())
	require.ErrorContains(t, err, "charset=utf8mb4")
	require.Zero(t, c.count(`SELECT COUNT(*) FROM QRTZ_NODE`), "nothing was written")
}

// A program that is told to stop while it starts has not failed.
func TestRunWithAnEndedContextReturnsNil(t *testing.T) {
	c := newCluster(t)
	s := c.open(quick("n1"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, s.Run(ctx))
	require.Zero(t, c.count(`SELECT COUNT(*) FROM QRTZ_APP`), "it has not registered")
	require.Zero(t, c.count(`SELECT COUNT(*) FROM QRTZ_NODE`))
}

// Wherever in its start the context ends: nothing is left that looks alive, and Run can be called again.
func TestRunWhoseContextEndsWhileItStartsReturnsNil(t *testing.T) {
	c := newCluster(t)
	s := c.open(quick("n1"))
	for after := time.Duration(0); after < 60*time.Millisecond; after += 2 * time.Millisecond {
		ctx, cancel := context.WithTimeout(t.Context(), after)
		require.NoError(t, s.Run(ctx), after)
		cancel()
		require.Zero(t, c.count(`SELECT COUNT(*) FROM QRTZ_NODE WHERE INSTANCE IS NOT NULL`), after)
	}
}

func TestRunSaysWhatFailsWhileItsContextLasts(t *testing.T) {
	c := newCluster(t)
	cfg := quick("n1")
	cfg.Prefix = "NOT_THERE_"
	s := c.open(cfg)
	require.ErrorContains(t, s.Run(t.Context()), "migrate")
	require.NoError(t, s.Migrate(t.Context()))
	require.NoError(t, s.Migrate(t.Context()), "it may be called again")
	require.NoError(t, s.Declare(t.Context(), qrtz.Job{Name: "tick"}))
	require.Equal(t, 1, c.count(`SELECT COUNT(*) FROM NOT_THERE_JOB`))
	require.Zero(t, c.count(`SELECT COUNT(*) FROM QRTZ_JOB`), "the tables of another prefix stay as they are")
}

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
	migrate(t, db)

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

func TestRunSaysWhenTheTablesAreMissing(t *testing.T) {
	c := newCluster(t)
	s := c.open(quick("n1"))
	c.exec(`DELETE FROM QRTZ_SCHEMA WHERE VERSION = 2`)
	require.ErrorContains(t, s.Run(t.Context()), "qrtz migrate up")
}
