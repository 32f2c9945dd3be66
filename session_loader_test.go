package qrtz

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/run"
)

// server is where a loader reads: it may be away for a while, and data may grow.
type server struct {
	awayUntil time.Time
	size      int64
	gone      bool
}

func (s *server) read(_ context.Context, _ run.Run, most int64) ([]byte, int64, error) {
	switch {
	case s.gone:
		return nil, 0, run.ErrNoData
	case time.Now().Before(s.awayUntil):
		return nil, 0, errors.New("away")
	case s.size > most:
		return nil, s.size, nil
	}
	return make([]byte, s.size), s.size, nil
}

func loading(t *testing.T, s *server, test func(t *testing.T, l *loader)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, &loader{read: s.read, budget: newBudget(100), reads: make(chan struct{}, 1), pause: time.Second})
	})
}

func TestDataThatCameWithTheClaimIsNotRead(t *testing.T) {
	loading(t, &server{gone: true}, func(t *testing.T, l *loader) {
		data, release, err := l.load(t.Context(), run.Run{Data: []byte("{}"), DataSize: 2})
		require.NoError(t, err)
		release()
		require.Equal(t, "{}", string(data))
	})
}

func TestDataIsReadOverAnOutage(t *testing.T) {
	s := &server{size: 50}
	loading(t, s, func(t *testing.T, l *loader) {
		s.awayUntil = time.Now().Add(20 * time.Second)
		data, release, err := l.load(t.Context(), run.Run{DataSize: 50})
		require.NoError(t, err)
		require.Len(t, data, 50)
		release()
		require.Zero(t, l.budget.taken)
	})
}

func TestDataThatHasGrownIsReadAllTheSame(t *testing.T) {
	loading(t, &server{size: 80}, func(t *testing.T, l *loader) {
		data, release, err := l.load(t.Context(), run.Run{DataSize: 50})
		require.NoError(t, err)
		require.Len(t, data, 80)
		require.Equal(t, int64(80), l.budget.taken)
		release()
	})
}

func TestDataThatCannotBeReadGivesTheRoomBack(t *testing.T) {
	for name, s := range map[string]*server{
		"gone":            {gone: true},
		"away too long":   {awayUntil: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)},
		"run has to stop": {awayUntil: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		t.Run(name, func(t *testing.T) {
			loading(t, s, func(t *testing.T, l *loader) {
				ctx, cancel := context.WithCancelCause(t.Context())
				if name == "run has to stop" {
					time.AfterFunc(time.Second, func() { cancel(ErrFenced) })
				}
				began := time.Now()
				_, _, err := l.load(ctx, run.Run{DataSize: 50})
				require.ErrorContains(t, err, "JOB_DATA (50 bytes) could not be read")
				require.Equal(t, name == "run has to stop", errors.Is(err, ErrFenced))
				require.LessOrEqual(t, time.Since(began), dataPatience)
				require.Zero(t, l.budget.taken)
				cancel(nil)
			})
		})
	}
}

// A process that was frozen between a claim and its start may find that its place is another's by now.
func TestARunWhoseInstanceHasLostItsPlaceIsNotStarted(t *testing.T) {
	db, err := sql.Open("mysql", "user@unix(/nowhere)/nothing") // nothing here asks the database
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	s, err := Open(db, Config{App: "a"})
	require.NoError(t, err)
	started := false
	Handle(s, "tick", func(context.Context, *Run, struct{}) error {
		started = true
		return nil
	})
	one := newSession(t.Context(), s, &links{own: sqlx.NewDb(db, "mysql"), beat: sqlx.NewDb(db, "mysql")})
	one.carryOut(run.Run{ID: 1, Class: "tick", Instance: 7, Attempt: 1, FireTime: time.Now()}, time.Now())
	require.False(t, started)
	require.Empty(t, one.active.byID)
}

// busy is a database whose connections are all taken.
type busy struct{ driver.Connector }

func (busy) Connect(ctx context.Context) (driver.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (busy) Driver() driver.Driver { return nil }

// The caller may hold all connections of its pool, for as long as it likes: a node that has joined does not wait for them.
func TestABusyPoolOfTheCallersHoldsUpNoStart(t *testing.T) {
	db := sql.OpenDB(busy{})
	defer func() { require.NoError(t, db.Close()) }()
	s, err := Open(db, Config{App: "a", DSN: "user@unix(/nowhere)/nothing"})
	require.NoError(t, err)
	x := sqlx.NewDb(db, "mysql")
	one := newSession(t.Context(), s, &links{own: x, beat: x})
	one.cfg.NodeTimeout = 100 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	require.NoError(t, one.meet(ctx, x))
	require.NoError(t, ctx.Err())
}
