package app_test

import (
	"database/sql"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/app"
	"github.com/qrtz-go/qrtz/internal/servers/testdb"
	"github.com/qrtz-go/qrtz/schema"
)

func TestMain(m *testing.M) { os.Exit(testdb.Main(m)) }

const interval = 15 * time.Second

// noon is any time in full milliseconds: Enter takes the time it is told.
var noon = time.UnixMilli(1_700_000_000_000)

func newDB(t *testing.T) *sql.DB {
	t.Helper()
	db := testdb.New(t)
	_, err := schema.Up(t.Context(), db, schema.DefaultPrefix)
	require.NoError(t, err)
	return db
}

func store(db *sql.DB) *app.Store {
	return app.NewStore(sqlx.NewDb(db, "mysql"), schema.DefaultPrefix, "a")
}

func registered(t *testing.T) (*sql.DB, *app.Store) {
	t.Helper()
	db := newDB(t)
	s := store(db)
	require.NoError(t, s.Register(t.Context(), interval))
	return db, s
}

func enter(t *testing.T, s *app.Store, now time.Time) app.Window {
	t.Helper()
	window, err := s.Enter(t.Context(), now, interval)
	require.NoError(t, err)
	return window
}

func exec(t *testing.T, db *sql.DB, query string, args ...any) {
	t.Helper()
	_, err := db.ExecContext(t.Context(), query, args...)
	require.NoError(t, err, query)
}

// appRow is a whole row of QRTZ_APP.
type appRow struct {
	Name, State    string
	Pre, Next, Int sql.NullInt64
	SwitchedAt     sql.NullString
}

func read(t *testing.T, db *sql.DB) appRow {
	t.Helper()
	var r appRow
	require.NoError(t, db.QueryRowContext(t.Context(), `SELECT APPLICATION, STATE, TIME_PRE, TIME_NEXT, TIME_INTERVAL,
		CAST(SWITCHED_AT AS CHAR) FROM QRTZ_APP WHERE APPLICATION = 'a'`).Scan(&r.Name, &r.State, &r.Pre, &r.Next, &r.Int, &r.SwitchedAt))
	return r
}

func TestRegisterKeepsTheOperatorsSwitch(t *testing.T) {
	db, s := registered(t)
	assert.Equal(t, "Y", read(t, db).State, "a new app is on")
	assert.False(t, read(t, db).SwitchedAt.Valid, "no person has switched it")
	exec(t, db, `UPDATE QRTZ_APP SET STATE = 'N'`)
	stopped := read(t, db)
	require.True(t, stopped.SwitchedAt.Valid, "the server stamps an operator's UPDATE")

	require.NoError(t, s.Register(t.Context(), 2*interval))
	stopped.Int.Int64 = (2 * interval).Milliseconds()
	assert.Equal(t, stopped, read(t, db), "only the interval is new")
}

// They do not ask at the very same time, and the last to ask may be the first to be served.
func TestOneOfManyGetsTheWindow(t *testing.T) {
	db, _ := registered(t)
	db.SetMaxOpenConns(10)
	for round := range 10 {
		now := noon.Add(time.Duration(round) * interval)
		var winners atomic.Int64
		var wg sync.WaitGroup
		for i := range 10 {
			s := store(db)
			wg.Go(func() {
				window, err := s.Enter(t.Context(), now.Add(time.Duration(i)*time.Millisecond), interval)
				if err != nil {
					t.Error(err)
				}
				if window.Mine {
					winners.Add(1)
				}
			})
		}
		wg.Wait()
		assert.Equal(t, int64(1), winners.Load(), "round %d", round)
	}
}

func TestTheFirstWindow(t *testing.T) {
	db, s := registered(t)
	assert.Equal(t, app.Window{Mine: true, On: true}, enter(t, s, noon), "never done before")
	r := read(t, db)
	assert.Equal(t, noon.UnixMilli(), r.Pre.Int64)
	assert.Equal(t, noon.Add(interval).UnixMilli(), r.Next.Int64)
	assert.False(t, r.SwitchedAt.Valid, "taking a window is not a switch")
}

func TestNobodyEntersWithinTheWindow(t *testing.T) {
	db, s := registered(t)
	require.True(t, enter(t, s, noon).Mine)
	exec(t, db, `UPDATE QRTZ_APP SET STATE = 'N'`)
	before := read(t, db)
	for _, after := range []time.Duration{0, time.Millisecond, interval / 2, interval*7/10 - time.Millisecond} {
		assert.Equal(t, app.Window{Previous: noon}, enter(t, s, noon.Add(after)), after)
		assert.Equal(t, before, read(t, db), "nothing was written after %s", after)
	}
	again := noon.Add(interval * 7 / 10)
	assert.Equal(t, app.Window{Mine: true, Previous: noon}, enter(t, s, again))
	after := read(t, db)
	assert.Equal(t, again.UnixMilli(), after.Pre.Int64)
	assert.Equal(t, again.Add(interval).UnixMilli(), after.Next.Int64)
	assert.Equal(t, before.SwitchedAt, after.SwitchedAt, "taking a window is not a switch")
	assert.Equal(t, "N", after.State)
}

// A node whose clock was far ahead has taken a window, or an operator mistyped a time.
func TestAWrongClockLocksNobodyOut(t *testing.T) {
	db, s := registered(t)
	for _, ahead := range []time.Duration{2*interval + time.Millisecond, time.Hour, 100 * 365 * 24 * time.Hour} {
		exec(t, db, `UPDATE QRTZ_APP SET TIME_PRE = ?, TIME_NEXT = ?`, noon.Add(ahead-interval).UnixMilli(), noon.Add(ahead).UnixMilli())
		assert.True(t, enter(t, s, noon).Mine, ahead)
		assert.False(t, enter(t, s, noon).Mine, "and the window is back to normal after %s", ahead)
	}
	require.True(t, enter(t, s, noon.Add(-time.Hour)).Mine, "nor does a clock that went back")
}

// A version 1.3 installation may have NULL there.
func TestEnterWithoutAPreviousTime(t *testing.T) {
	db, s := registered(t)
	exec(t, db, `UPDATE QRTZ_APP SET TIME_PRE = NULL`)
	assert.Equal(t, app.Window{Mine: true, On: true}, enter(t, s, noon))
	assert.Equal(t, app.Window{On: true, Previous: noon}, enter(t, s, noon))
}

// The operator's UPDATE commits after Enter has read the row and before Enter writes it: the operator's
// transaction holds the row, so that Enter waits in between.
func TestASwitchInBetweenIsNotUndone(t *testing.T) {
	db, s := registered(t)
	operator, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = operator.ExecContext(t.Context(), `UPDATE QRTZ_APP SET STATE = 'N' WHERE APPLICATION = 'a'`)
	require.NoError(t, err)
	entered := make(chan app.Window, 1)
	go func() {
		window, err := s.Enter(t.Context(), noon, interval) // reads without a lock, then waits for the operator's
		assert.NoError(t, err)
		entered <- window
	}()
	waitUntilBlocked(t, db)
	require.NoError(t, operator.Commit())
	window := <-entered
	assert.True(t, window.Mine)
	r := read(t, db)
	assert.Equal(t, "N", r.State)
	assert.True(t, r.SwitchedAt.Valid)
	assert.Equal(t, noon.UnixMilli(), r.Pre.Int64)
}

func TestEnterOfAnAppThatIsGone(t *testing.T) {
	db, s := registered(t)
	exec(t, db, `DELETE FROM QRTZ_APP`)
	_, err := s.Enter(t.Context(), noon, interval)
	require.ErrorIs(t, err, sql.ErrNoRows)
	assert.ErrorContains(t, err, `"a"`)
}

// waitUntilBlocked returns when Enter has sent its UPDATE, which the operator's transaction holds up.
func waitUntilBlocked(t *testing.T, db *sql.DB) {
	t.Helper()
	sent := func() bool {
		var n int
		err := db.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM information_schema.PROCESSLIST
			WHERE DB = DATABASE() AND ID <> CONNECTION_ID() AND INFO LIKE '%UPDATE QRTZ_APP SET TIME_PRE%'`).Scan(&n)
		return err == nil && n > 0
	}
	require.Eventually(t, sent, 10*time.Second, 5*time.Millisecond)
}

func TestSwitch(t *testing.T) {
	db := sqlx.NewDb(newDB(t), "mysql")
	s := app.NewStore(db, schema.DefaultPrefix, "a")
	require.NoError(t, s.Register(t.Context(), time.Minute))
	flip := func(s *app.Store, on bool) (was bool, err error) {
		err = schema.InTx(t.Context(), db, func(tx *sqlx.Tx) (err error) {
			was, err = s.Switch(t.Context(), tx, on)
			return err
		})
		return was, err
	}
	state := func() (text string) {
		require.NoError(t, db.Get(&text, `SELECT CONCAT(STATE, SWITCHED_AT IS NOT NULL) FROM QRTZ_APP`))
		return text
	}
	for _, c := range []struct {
		on, was bool
		state   string
	}{{true, true, "Y0"}, {false, true, "N1"}, {false, false, "N1"}, {true, false, "Y1"}} {
		was, err := flip(s, c.on)
		require.NoError(t, err)
		require.Equal(t, c.was, was)
		require.Equal(t, c.state, state(), "the server stamps what changes")
	}
	_, err := flip(app.NewStore(db, schema.DefaultPrefix, "b"), true)
	require.ErrorContains(t, err, `switch app "b"`)
}
