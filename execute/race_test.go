package execute

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/qrtz-go/qrtz/run"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/schema"
)

func TestExclusiveJobsNeverOverlap(t *testing.T) {
	f := newTables(t)
	overlaps, started, conflicts := raceExclusive(t, f, 200, 4)
	require.Zero(t, overlaps)
	require.Greater(t, started, 200)
	t.Logf("%d runs; %d deadlocks and lock wait timeouts, all resolved", started, conflicts)
	require.Zero(t, f.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE OVERLAP_KEY IS NOT NULL`))
	require.Zero(t, f.count(`SELECT COUNT(*) FROM QRTZ_EXECUTE E WHERE TIME_TRIGGERED <> (SELECT COUNT(*) FROM QRTZ_RUN R WHERE R.EXECUTE_ID = E.ID)`),
		"each fire has its row")
}

// It is the unique key that makes it so.
func TestExclusiveJobsOverlapWithoutTheKey(t *testing.T) {
	f := newTables(t)
	f.exec(`ALTER TABLE QRTZ_RUN DROP KEY QRTZ_RUN_OVERLAP`)
	overlaps, _, _ := raceExclusive(t, f, 40, 4)
	require.NotZero(t, overlaps)
}

// raceExclusive has eight instances race for the fires of many exclusive jobs, and finish what they get. It returns how
// often a job had two runs at once, as the winners saw it, and the conflicts the server reported.
func raceExclusive(t *testing.T, f *tables, jobs, rounds int) (overlaps, started int, conflicts int64) {
	t.Helper()
	db, faults := f.openWithFaults()
	store := newStore(db)
	for i := range jobs {
		job, _ := f.exclusive([]run.Overlap{run.OverlapSkip, run.OverlapQueue}[i%2], 2)
		for range 3 { // four schedules each, so that no row of QRTZ_EXECUTE decides the race
			f.addTo(job)
		}
	}
	var mu sync.Mutex
	running := map[int64]int{}
	var racers sync.WaitGroup
	for range 8 {
		who := f.join(string(rune('a' + f.last.Load())))
		racers.Go(func() {
			for range rounds {
				read, err := store.Due(context.Background(), time.UnixMilli(1), at(1000), nil, func(int64, string) bool { return true })
				if !noError(t, err) {
					return
				}
				rand.Shuffle(len(read), func(i, j int) { read[i], read[j] = read[j], read[i] })
				read = read[:len(read)/3]
				var won Applied
				err = schema.Again(context.Background(), func() error { // a claim that gives up is tried again, as the poller does
					won, err = store.Claim(context.Background(), who, claims(read, 1))
					return err
				})
				if !noError(t, err) {
					return
				}
				pending, _ := store.runs.Pending(context.Background(), []string{"tick"}, at(10_000_000), 100)
				var waited run.Claimed
				err = schema.Again(context.Background(), func() error {
					waited, err = store.runs.ClaimPending(context.Background(), who, pending)
					return err
				})
				if !noError(t, err) {
					return
				}
				var results []run.Result
				mu.Lock()
				for _, r := range append(won.Runs, waited.Runs...) {
					started++
					if running[r.JobID]++; running[r.JobID] > 1 {
						overlaps++
					}
					results = append(results, run.Result{Run: r, State: run.Succeeded, Started: at(1), Finished: at(2)})
				}
				mu.Unlock()
				time.Sleep(5 * time.Millisecond) // while they go
				mu.Lock()
				for _, r := range results {
					running[r.Run.JobID]--
				}
				mu.Unlock()
				if _, err := store.runs.Complete(context.Background(), results); !noError(t, err) {
					return
				}
			}
		})
	}
	racers.Wait()
	return overlaps, started, faults.conflicts.Load()
}
