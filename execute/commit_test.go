package execute

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/qrtz-go/qrtz/run"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/schema"
)

// faults lie between a pool and the driver: they lose the answer of a COMMIT, and count conflicts.
type faults struct {
	driver.Connector
	loseAnswer, refuse atomic.Int64 // of which of the COMMITs to come; 0: of none
	conflicts          atomic.Int64 // statements that the server refused because of other transactions
	atCommit           atomic.Int64 // COMMITs that it refused for that reason
	updates            atomic.Int64 // UPDATEs sent
	committed          func()       // called after the next COMMIT; nil for nothing
}

var errNoAnswer = errors.New("no answer")

func (f *tables) openWithFaults() (*sqlx.DB, *faults) {
	f.t.Helper()
	return f.openFaults(f.dsn)
}

func (f *tables) openFaults(dsn string) (*sqlx.DB, *faults) {
	f.t.Helper()
	cfg, err := mysql.ParseDSN(dsn)
	require.NoError(f.t, err)
	connector, err := mysql.NewConnector(cfg)
	require.NoError(f.t, err)
	faults := &faults{Connector: connector}
	db := sqlx.NewDb(sql.OpenDB(faults), "mysql")
	f.t.Cleanup(func() { require.NoError(f.t, db.Close()) })
	return db, faults
}

func (f *faults) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := f.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &faultyConn{c.(fullConn), f}, nil
}

type fullConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.NamedValueChecker
	driver.SessionResetter
	driver.Validator
}

type faultyConn struct {
	fullConn
	faults *faults
}

func (c *faultyConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if strings.HasPrefix(strings.TrimSpace(query), "UPDATE") {
		c.faults.updates.Add(1)
	}
	result, err := c.fullConn.ExecContext(ctx, query, args)
	if schema.Retryable(err) {
		c.faults.conflicts.Add(1)
	}
	return result, err
}

func (c *faultyConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	tx, err := c.fullConn.BeginTx(ctx, opts)
	if err != nil {
		return nil, err
	}
	return &faultyTx{tx, c.faults}, nil
}

type faultyTx struct {
	driver.Tx
	faults *faults
}

func (tx *faultyTx) Commit() error {
	if tx.faults.refuse.Add(-1) == 0 {
		_ = tx.Rollback()
		return errNoAnswer
	}
	if err := tx.Tx.Commit(); err != nil {
		if schema.Retryable(err) {
			tx.faults.atCommit.Add(1)
		}
		return err
	}
	if then := tx.faults.committed; then != nil {
		tx.faults.committed = nil
		then()
	}
	if tx.faults.loseAnswer.Add(-1) == 0 {
		return errNoAnswer
	}
	return nil
}

func TestAClaimWhoseCommitGotNoAnswerIsHandedBackOnce(t *testing.T) {
	for name, committed := range map[string]bool{"it did commit": true, "it did not": false} {
		t.Run(name, func(t *testing.T) {
			f := newTables(t)
			db, faults := f.openWithFaults()
			store := newStore(db)
			f.addMany(3)
			who := f.join("n1")
			moves := claims(f.due(noon), 2)
			if committed {
				faults.loseAnswer.Store(1)
			} else {
				faults.refuse.Store(1)
			}
			won, err := store.Claim(t.Context(), who, moves)
			require.ErrorIs(t, err, schema.ErrCommitUnknown)
			require.Empty(t, won.Runs)
			require.Len(t, won.InDoubt, len(moves))

			other := f.join("n2")
			if committed {
				_, err = store.HandBackFires(t.Context(), other, tokenOf(moves, 1))
				require.NoError(t, err, "another claim does not")
			}
			pending := `SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'PENDING' AND INSTANCE IS NULL AND HOST_IP IS NULL`
			require.Zero(t, f.count(pending))
			f.handBackFires(store, who, moves)
			if !committed {
				require.Zero(t, f.count(`SELECT COUNT(*) FROM QRTZ_RUN`))
				require.Len(t, f.claim(other, 2, f.due(noon)...).Runs, 6, "the fires are free")
				return
			}
			require.Equal(t, int64(6), f.count(pending))
			var ids []int64
			require.NoError(t, f.Select(&ids, `SELECT ID FROM QRTZ_RUN`))
			taken, err := store.runs.ClaimPending(t.Context(), other, f.pendingOf(store, ids...))
			require.NoError(t, err)
			require.Len(t, taken.Runs, 6)
			f.handBackFires(store, who, moves)
			require.Equal(t, int64(6), f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'RUNNING' AND INSTANCE = ?`, other.ID), "once is enough")
		})
	}
}

// A claim in doubt that did not commit may have been won by others meanwhile. To give it up changes nothing of theirs.
func TestGivingUpAClaimLeavesLaterOnesAlone(t *testing.T) {
	f := newTables(t)
	db, faults := f.openWithFaults()
	store := newStore(db)
	f.addMany(3)
	f.claim(f.join("n3"), 1, f.due(noon)[1:]...) // so that two have a token before the claim in doubt, and one has none
	who, other := f.join("n1"), f.join("n2")
	due := f.due(at(5))
	moves := claims(due, 1)
	faults.refuse.Store(1)
	_, err := store.Claim(t.Context(), who, moves)
	require.ErrorIs(t, err, schema.ErrCommitUnknown)
	late := slices.Clone(moves)
	planned := f.claim(other, 1, due[:2]...).Moved
	require.Len(t, planned, 2)
	f.handBackFires(store, who, moves)
	f.handBackFires(store, who, moves)
	require.Len(t, f.claim(other, 1, planned...).Runs, 2, "their next fires, as they expect them")
	update, args := store.guardedUpdate(claiming(who), late[2].token, "", late)
	f.exec(update, args...)
	require.Zero(t, f.count(`SELECT COUNT(*) FROM QRTZ_EXECUTE WHERE CLAIM_TOKEN = ?`, late[2].token), "the claim in doubt arrives too late for any")
}

func TestAPendingRunWhoseClaimGotNoAnswerIsHandedBack(t *testing.T) {
	f := newTables(t)
	db, faults := f.openWithFaults()
	store := newStore(db)
	who, run := f.join("n1"), f.pending()
	faults.loseAnswer.Store(1)
	claimed, err := store.runs.ClaimPending(t.Context(), who, f.pendingOf(store, run))
	require.ErrorIs(t, err, schema.ErrCommitUnknown)
	require.Empty(t, claimed.Runs)
	require.Equal(t, "RUNNING", f.runState(run))
	f.handBackPending(store, who, claimed.InDoubt)
	require.Equal(t, "PENDING", f.runState(run))
	again := f.claimWaiting(who, run)
	require.Len(t, again, 1)
	f.handBackPending(store, who, claimed.InDoubt)
	require.Equal(t, "RUNNING", f.runState(run), "a hand-back that is made again leaves a later claim of the same instance alone")
}

// The run of an exclusive job is started by a second packet, whose answer may get lost as well.
func TestTheStartOfAnExclusiveRunThatGotNoAnswerIsHandedBack(t *testing.T) {
	f := newTables(t)
	db, faults := f.openWithFaults()
	store := newStore(db)
	_, e := f.exclusive(run.OverlapSkip, 1)
	who := f.join("n1")
	faults.loseAnswer.Store(2)
	won, err := store.Claim(t.Context(), who, claims([]*Execute{e}, 1))
	require.ErrorIs(t, err, schema.ErrCommitUnknown)
	require.Len(t, won.Moved, 1, "the claim itself was answered")
	require.Empty(t, won.Runs)
	require.Len(t, won.PendingInDoubt, 1)
	require.Equal(t, int64(1), f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'RUNNING' AND OVERLAP_KEY IS NOT NULL`))
	f.handBackPending(store, who, won.PendingInDoubt)
	require.Equal(t, int64(1), f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'PENDING' AND OVERLAP_KEY IS NULL`))
	require.Len(t, f.claimWaiting(f.join("n2"), f.allIDs()...), 1)
}

// With HistoryNone a fire leaves no row. It is told by its claim's token, and handed back once.
func TestAClaimWithoutRowsWhoseCommitGotNoAnswer(t *testing.T) {
	for name, committed := range map[string]bool{"it did commit": true, "it did not": false} {
		t.Run(name, func(t *testing.T) {
			f := newTables(t)
			db, faults := f.openWithFaults()
			store := newStore(db)
			f.exec(`UPDATE QRTZ_JOB SET HISTORY = 'NONE'`)
			f.addMany(2)
			who := f.join("n1")
			moves := claims(f.due(noon), 2)
			if committed {
				faults.loseAnswer.Store(1)
			} else {
				faults.refuse.Store(1)
			}
			_, err := store.Claim(t.Context(), who, moves)
			require.ErrorIs(t, err, schema.ErrCommitUnknown)
			require.Zero(t, f.count(`SELECT COUNT(*) FROM QRTZ_RUN`))
			f.handBackFires(store, who, moves)
			if !committed {
				require.Zero(t, f.count(`SELECT COUNT(*) FROM QRTZ_RUN`))
				require.Len(t, f.claim(who, 2, f.due(noon)...).Runs, 4)
				return
			}
			runs := f.claimWaiting(who, f.allIDs()...)
			require.Len(t, runs, 4)
			f.succeed(runs...)
			f.handBackFires(store, who, moves)
			require.Zero(t, f.count(`SELECT COUNT(*) FROM QRTZ_RUN`), "once is enough")
		})
	}
}

func TestARunWithoutARowIsHandedBack(t *testing.T) {
	f := newTables(t)
	f.exec(`UPDATE QRTZ_JOB SET HISTORY = 'NONE'`)
	who := f.join("n1")
	won := f.claim(who, 2, f.read(f.add())).Runs
	require.Len(t, won, 2)
	require.Zero(t, won[0].ID)
	require.NoError(t, f.store.runs.LeaveForOthers(t.Context(), won))
	require.NoError(t, f.store.runs.LeaveForOthers(t.Context(), nil))
	again := f.claimWaiting(f.join("n2"), f.allIDs()...)
	require.Len(t, again, 2)
	for i := range again {
		require.Equal(t, won[i].FireTime.UnixMilli(), again[i].FireTime.UnixMilli())
		require.Equal(t, won[i].ExecuteID, again[i].ExecuteID)
		require.Greater(t, again[i].Fence, won[i].Fence)
	}
	f.succeed(again...)
	require.Zero(t, f.count(`SELECT COUNT(*) FROM QRTZ_RUN`))
}

// tokenOf are moves as another attempt would have tried them.
func tokenOf(moves []Move, token int64) []Move {
	other := slices.Clone(moves)
	for i := range other {
		other[i].token = token
	}
	return other
}

func TestALockedRunKeepsNoOtherFireFromBeingHandedBack(t *testing.T) {
	f := newTables(t)
	who := f.join("n1")
	f.addMany(5)
	moves := claims(f.due(noon), 2)
	won, err := f.store.Claim(t.Context(), who, moves)
	require.NoError(t, err)
	require.Len(t, won.Runs, 10)
	release := f.holding(`UPDATE QRTZ_RUN SET MESSAGE = 'x' WHERE ID = ?`, won.Runs[2].ID)
	again, err := f.store.HandBackFires(t.Context(), who, moves)
	require.NoError(t, err)
	require.Len(t, again, 1)
	require.Equal(t, won.Runs[2].ExecuteID, again[0].Execute.ID)
	require.Equal(t, int64(8), f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'PENDING'`))
	release()
	f.handBackFires(f.store, who, again)
	require.Equal(t, int64(10), f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'PENDING'`))
}
