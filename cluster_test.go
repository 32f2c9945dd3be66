package qrtz_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz"
	"github.com/qrtz-go/qrtz/internal/testdb"
)

func logger() *zerolog.Logger {
	l := zerolog.New(zerolog.ConsoleWriter{Out: os.Stderr, NoColor: true}).With().Timestamp().Logger()
	return &l
}

func newDB(t *testing.T) *sql.DB {
	t.Helper()
	db := testdb.New(t)
	require.NoError(t, qrtz.Migrate(t.Context(), db))
	return db
}

func TestThreeNodes(t *testing.T) {
	db := newDB(t)
	var mu sync.Mutex
	seen := map[string]int{}
	var late []time.Duration
	perNode := map[string]int{}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range 3 {
		s, err := qrtz.Open(db, qrtz.Config{App: "a", NodeID: fmt.Sprint("n", i), Logger: logger()})
		require.NoError(t, err)
		qrtz.Handle(s, "tick", func(_ context.Context, r *qrtz.Run, _ struct{}) error {
			mu.Lock()
			defer mu.Unlock()
			seen[fmt.Sprint(r.ExecuteID, " ", r.FireTime.UnixMilli())]++
			late = append(late, r.StartedAt.Sub(r.FireTime))
			perNode[r.Node]++
			return nil
		})
		if i == 0 {
			for j := range 20 {
				require.NoError(t, s.Declare(ctx, qrtz.Job{Name: fmt.Sprint("job", j), Class: "tick", Schedules: []qrtz.Schedule{qrtz.Every(200 * time.Millisecond)}}))
			}
		}
		wg.Go(func() { require.NoError(t, s.Run(ctx)) })
	}
	time.Sleep(8 * time.Second)
	cancel()
	wg.Wait()
	for k, n := range seen {
		require.Equal(t, 1, n, k)
	}
	var maxLate time.Duration
	for _, l := range late {
		require.GreaterOrEqual(t, l, time.Duration(0))
		maxLate = max(maxLate, l)
	}
	t.Log(len(seen), perNode, maxLate)
	rows, err := db.Query("SELECT STATE, COUNT(*) FROM QRTZ_RUN GROUP BY 1")
	require.NoError(t, err)
	for rows.Next() {
		var s string
		var n int
		rows.Scan(&s, &n)
		t.Log(s, n)
	}
}
