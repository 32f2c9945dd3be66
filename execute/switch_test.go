package execute

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/schema"
)

const (
	nodeOff = `UPDATE QRTZ_NODE SET STATE = 'N' WHERE HOST_IP = 'n1'`
	appOff  = `UPDATE QRTZ_APP SET STATE = 'N'`
)

// Promise 4: a switch waits for the claim in flight.
func TestASwitchWaitsForTheClaimInFlight(t *testing.T) {
	for _, off := range []string{nodeOff, appOff} {
		f := newTables(t)
		f.add()
		who := f.join("n1")
		thrown := make(chan error, 1)
		err := schema.InTx(t.Context(), f.DB, func(tx *sqlx.Tx) error {
			update, args := f.store.guardedUpdate(claiming(who), 1, "", claims(f.due(noon), 1))
			if _, err := tx.ExecContext(t.Context(), update, args...); err != nil {
				return err
			}
			go func() {
				_, err := f.ExecContext(context.Background(), off)
				thrown <- err
			}()
			select {
			case err := <-thrown:
				t.Error(off, "did not wait:", err)
			case <-time.After(300 * time.Millisecond):
			}
			return nil
		})
		require.NoError(t, err)
		require.NoError(t, <-thrown)
		require.Empty(t, f.claim(who, 1, f.due(at(10))...).Moved)
	}
}

// Promise 4: after it has committed no claim commits, until it is thrown back.
func TestNoClaimCommitsAfterASwitch(t *testing.T) {
	f := newTables(t)
	f.addMany(20)
	who := f.join("n1")
	var done sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	for range 3 {
		done.Go(func() {
			for ctx.Err() == nil {
				read, err := f.store.Due(context.Background(), time.UnixMilli(1), at(1000000), nil, func(int64, string) bool { return true })
				if !noError(t, err) {
					return
				}
				if _, err = f.store.Claim(context.Background(), who, claims(read, 1)); !noError(t, err) {
					return
				}
			}
		})
	}
	const runs = `SELECT COUNT(*) FROM QRTZ_RUN`
	switches := [][2]string{{nodeOff, `UPDATE QRTZ_NODE SET STATE = 'Y'`}, {appOff, `UPDATE QRTZ_APP SET STATE = 'Y'`}}
	for i := range 150 {
		s := switches[i%2]
		f.exec(s[0])
		atSwitch := f.count(runs)
		for range 3 {
			require.Equal(t, atSwitch, f.count(runs), "a claim committed after the switch")
			time.Sleep(time.Millisecond)
		}
		require.Equal(t, atSwitch, f.count(runs), "a claim committed after the switch")
		f.exec(s[1])
		for deadline := time.Now().Add(5 * time.Second); f.count(runs) == atSwitch; {
			require.True(t, time.Now().Before(deadline), "claims go on")
		}
	}
	stop()
	done.Wait()
}

func TestAPendingRunIsNotClaimedWhenOff(t *testing.T) {
	for _, off := range []string{nodeOff, appOff, `UPDATE QRTZ_NODE SET INSTANCE = 77 WHERE HOST_IP = 'n1'`} {
		f := newTables(t)
		who := f.join("n1")
		run := f.pending()
		f.exec(off)
		runs, err := f.store.runs.ClaimPending(t.Context(), who, f.pendingOf(f.store, run))
		require.NoError(t, err)
		require.Empty(t, runs.Runs)
		require.Equal(t, "PENDING", f.runState(run))
	}
}
