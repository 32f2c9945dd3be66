package qrtz_test

import (
	"bytes"
	"context"
	"database/sql"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz"
	"github.com/qrtz-go/qrtz/internal/servers/mysqld"
)

// The server comes back with its data of some time ago, as after a restore, a fail-over to a replica that lagged, or a crash
// without durable commits: what this node has begun since then is due again, and it is not started twice.
func TestWhatTheDatabaseHasForgottenIsNotStartedAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "s")
	server, err := mysqld.Start(t.Context(), mysqld.Options{Dir: dir})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(context.Background())) })
	admin, err := sql.Open("mysql", server.DSN(""))
	require.NoError(t, err)
	_, err = admin.Exec(`CREATE DATABASE forgets`)
	require.NoError(t, err)
	require.NoError(t, admin.Close())
	db, err := sql.Open("mysql", server.DSN("forgets"))
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	migrate(t, db)

	var lines bytes.Buffer
	log := zerolog.New(zerolog.SyncWriter(&lines))
	cfg := quick("n1")
	cfg.Logger, cfg.MisfireAfter, cfg.NodeTimeout = &log, 60*time.Second, 30*time.Second
	var mu sync.Mutex
	begun := map[int64]int{} // by fire time
	s, err := qrtz.Open(db, cfg)
	require.NoError(t, err)
	qrtz.Handle(s, "tick", func(_ context.Context, run *qrtz.Run, _ struct{}) error {
		mu.Lock()
		defer mu.Unlock()
		begun[run.FireTime.UnixMilli()]++
		return nil
	})
	dueAfter := func(at time.Time) (n int) {
		mu.Lock()
		defer mu.Unlock()
		for fire := range begun {
			if fire > at.UnixMilli() {
				n++
			}
		}
		return n
	}
	require.NoError(t, s.Declare(t.Context(), qrtz.Job{Name: "ticking", Class: "tick", Schedules: []qrtz.Schedule{qrtz.Every(200 * time.Millisecond)}}))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	began := time.Now()
	require.Eventually(t, func() bool { return dueAfter(began) >= 5 }, 20*time.Second, 10*time.Millisecond)

	backup := filepath.Join(t.TempDir(), "backup")
	copyAll := func(from, to string) {
		require.NoError(t, exec.Command("rm", "-rf", to).Run())
		require.NoError(t, exec.Command("cp", "-a", from, to).Run())
	}
	server.Kill()
	copyAll(filepath.Join(dir, "data"), backup)
	require.NoError(t, server.Restart(t.Context()))
	copied := time.Now()
	require.Eventually(t, func() bool { return dueAfter(copied) >= 10 }, 30*time.Second, 10*time.Millisecond)
	server.Kill()
	copyAll(backup, filepath.Join(dir, "data"))
	require.NoError(t, server.Restart(t.Context()))
	restored := time.Now()
	require.Eventually(t, func() bool { return dueAfter(restored) >= 5 }, 30*time.Second, 10*time.Millisecond)
	cancel()
	require.NoError(t, <-done)

	for fire, n := range begun {
		require.Equal(t, 1, n, "the fire at %s", time.UnixMilli(fire))
	}
	var forgotten int
	require.NoError(t, db.QueryRow(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'LOST' AND MESSAGE LIKE 'not started: the database lost the claim%'`).Scan(&forgotten))
	require.GreaterOrEqual(t, forgotten, 10)
	require.Contains(t, lines.String(), "the database has lost commits")
}
