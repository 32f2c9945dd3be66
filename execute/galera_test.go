package execute

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/servers/galera"
	"github.com/qrtz-go/qrtz/internal/tabletest"
	"github.com/qrtz-go/qrtz/node"
	"github.com/qrtz-go/qrtz/run"
	"github.com/qrtz-go/qrtz/schema"
)

// nodes are the tables of one database as the nodes of a Galera cluster see them.
type nodes struct {
	*tables
	dsns   []string
	dbs    []*sqlx.DB
	faults []*tabletest.Faults
	stores []*Store
}

func newNodes(t *testing.T, c *galera.Cluster) *nodes {
	t.Helper()
	name := fmt.Sprintf("d%d", time.Now().UnixNano())
	for i := range c.Nodes() {
		admin, err := sql.Open("mysql", c.DSN(i, ""))
		require.NoError(t, err)
		if i == 0 {
			_, err = admin.ExecContext(t.Context(), "CREATE DATABASE "+name)
			require.NoError(t, err)
		}
		catchUp(t, admin) // a node that has yet to create the database refuses to connect to it
		require.NoError(t, admin.Close())
	}
	n := &nodes{tables: storeOf(tabletest.In(t, c.DSN(0, name)))}
	for i := range c.Nodes() {
		dsn := c.DSN(i, name)
		db, faults := n.OpenFaults(dsn)
		n.dsns, n.dbs, n.faults = append(n.dsns, dsn), append(n.dbs, db), append(n.faults, faults)
		n.stores = append(n.stores, newStore(db))
	}
	// The engine's own connections end a transaction that is idle for a second, as one is in a process that gets no processor
	// time. The poller would claim again, these tests would not.
	n.store = n.stores[0]
	n.catchUp()
	return n
}

// catchUp waits until every node has what any of them has committed.
func (n *nodes) catchUp() {
	n.T.Helper()
	for _, db := range n.dbs {
		catchUp(n.T, db.DB)
	}
}

// catchUp waits until a node has what any node has committed.
func catchUp(t *testing.T, db *sql.DB) {
	t.Helper()
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	_, err = conn.ExecContext(t.Context(), "SET SESSION wsrep_sync_wait = 1")
	require.NoError(t, err)
	require.NoError(t, patiently(func() error { // it waits for 30 s at the most
		var one int
		return conn.QueryRowContext(t.Context(), "SELECT 1").Scan(&one)
	}))
	_, err = conn.ExecContext(t.Context(), "SET SESSION wsrep_sync_wait = 0")
	require.NoError(t, err)
	require.NoError(t, conn.Close())
}

func TestAcrossTheNodesOfAGaleraCluster(t *testing.T) {
	// One thread applies what the others commit, which is the default: a busy node is behind.
	c, err := galera.Start(t.Context(), galera.Options{Args: []string{"--wsrep-slave-threads=1"}})
	if errors.Is(err, galera.ErrUnavailable) {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Stop(context.Background())) })
	for _, test := range []struct {
		name string
		run  func(*testing.T, *nodes)
	}{
		{"a fire is won once and its winner's row is everywhere", raceForFires},
		{"exclusive jobs never overlap", raceForKeys},
		{"a run has one end", raceForEnds},
		{"a claim that has yet to arrive is handed back", handBackBeforeArrival},
		{"results follow their claim with wsrep_sync_wait", finishBeforeArrival},
		{"several migrate at once", migrateAtOnce},
		{"one migrates while others begin", migrateWhileOthersBegin},
		{"transactions go step by step", sendNoPackets},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, newNodes(t, c)) })
	}
}

const perNode = 2 // instances

// race has instances on all nodes do something many times, each on its own.
func (n *nodes) race(times int, do func(store *Store, who node.Instance) error) {
	n.T.Helper()
	var instances []node.Instance
	for i := range perNode * len(n.stores) {
		instances = append(instances, n.Join(fmt.Sprintf("n%d", i)))
	}
	n.catchUp()
	var racers sync.WaitGroup
	for i, who := range instances {
		racers.Go(func() {
			for range times {
				if !assert.NoError(n.T, do(n.stores[i%len(n.stores)], who)) {
					return
				}
			}
		})
	}
	racers.Wait()
	n.catchUp()
	for i, f := range n.faults {
		n.T.Logf("node %d refused %d statements and %d commits", i, f.Conflicts.Load(), f.AtCommit.Load())
	}
}

// someOf reads the active executes, as a node that may be behind sees them, and returns a few.
func someOf(store *Store, most int) ([]*Execute, error) {
	all, err := store.Due(context.Background(), time.UnixMilli(1), at(1000000), nil, func(int64, string) bool { return true })
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(len(all), 1+rand.N(most))], err
}

// errLocked says that something is left to do: rows were set aside because another transaction held them. On a node that is applying what
// another one has committed, that may be the applier.
var errLocked = errors.New("locked")

// patiently does again what lost more conflicts in a row than InTx puts up with, or was locked, as the poller would.
func patiently(do func() error) error {
	for began := time.Now(); ; {
		err := do()
		if !schema.Retryable(err) && !errors.Is(err, errLocked) || time.Since(began) > 2*time.Minute {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// A transaction that loses at COMMIT must not look like a winner, with rows of its own or without.
func raceForFires(t *testing.T, n *nodes) {
	for _, history := range []string{"ALL", "NONE"} {
		n.Exec(`DELETE FROM QRTZ_EXECUTE`)
		n.Exec(`UPDATE QRTZ_JOB SET HISTORY = ?`, history)
		n.AddMany(20)
		n.catchUp()
		type fire struct{ execute, at int64 }
		var mu sync.Mutex
		won, instance := map[fire]run.Run{}, map[int64]int64{}
		n.race(40, func(store *Store, who node.Instance) error {
			some, err := someOf(store, 5)
			if err != nil {
				return err
			}
			return patiently(func() error {
				a, err := store.Claim(context.Background(), who, claims(some, 1))
				mu.Lock()
				defer mu.Unlock()
				for _, r := range a.Runs {
					_, taken := won[fire{r.ExecuteID, r.FireTime.UnixMilli()}]
					assert.False(t, taken, "won twice")
					won[fire{r.ExecuteID, r.FireTime.UnixMilli()}], instance[r.ID] = r, who.ID
				}
				return err
			})
		})
		t.Logf("history %s: %d fires", history, len(won))
		for i, db := range n.dbs {
			var triggered int
			require.NoError(t, db.Get(&triggered, `SELECT SUM(TIME_TRIGGERED) FROM QRTZ_EXECUTE`))
			require.Equal(t, len(won), triggered, "on node %d", i)
			if history == "NONE" {
				continue
			}
			require.Equal(t, instance, holders(t, db, "RUNNING"), "on node %d", i)
		}
	}
}

// holders maps the runs in a state to their instances.
func holders(t *testing.T, db *sqlx.DB, state string) map[int64]int64 {
	t.Helper()
	var rows []struct{ ID, Instance int64 }
	require.NoError(t, db.Unsafe().Select(&rows, `SELECT ID AS id, INSTANCE AS instance FROM QRTZ_RUN WHERE STATE = ?`, state))
	held := make(map[int64]int64, len(rows))
	for _, r := range rows {
		held[r.ID] = r.Instance
	}
	return held
}

func raceForKeys(t *testing.T, n *nodes) {
	for i := range 10 {
		job, _ := n.exclusive([]string{"SKIP", "QUEUE"}[i%2], 2)
		n.AddTo(job)
	}
	n.catchUp()
	var mu sync.Mutex
	running, started := map[int64]int{}, 0
	n.race(30, func(store *Store, who node.Instance) error {
		some, err := someOf(store, 5)
		if err != nil {
			return err
		}
		var won []run.Run
		if err := patiently(func() error {
			a, err := store.Claim(context.Background(), who, claims(some, 1))
			won = append(won, a.Runs...)
			return err
		}); err != nil {
			return err
		}
		pending, err := store.runs.Pending(context.Background(), []string{"tick"}, noon, 5)
		if err != nil {
			return err
		}
		if err := patiently(func() error {
			claimed, err := store.runs.ClaimPending(context.Background(), who, pending)
			won = append(won, claimed.Runs...)
			return err
		}); err != nil {
			return err
		}
		mu.Lock()
		for _, r := range won {
			started++
			running[r.JobID]++
			assert.Equal(t, 1, running[r.JobID], "runs of job %d at once", r.JobID)
		}
		mu.Unlock()
		time.Sleep(2 * time.Millisecond) // while they go
		mu.Lock()
		for _, r := range won {
			running[r.JobID]--
		}
		mu.Unlock()
		return finish(t, store, won)
	})
	t.Logf("%d runs", started)
	for i, db := range n.dbs {
		require.Empty(t, holders(t, db, "RUNNING"), "on node %d", i)
	}
}

// finish writes that runs succeeded, which must still be their instances'.
func finish(t *testing.T, store *Store, runs []run.Run) error {
	var results []run.Result
	for _, r := range runs {
		results = append(results, succeeded(r))
	}
	return patiently(func() error {
		done, err := store.runs.Complete(context.Background(), results)
		assert.Zero(t, done.Late)
		assert.Empty(t, done.Refused)
		if results = slices.Concat(done.Left, done.Locked); err == nil && len(results) > 0 {
			return errLocked
		}
		return err
	})
}

func succeeded(r run.Run) run.Result {
	return run.Result{Run: r, State: run.Succeeded, Started: at(1), Finished: at(2), Progress: -1}
}

// Each run is finished by its instance and, at the same time on another node, taken for lost: one of them wins.
func raceForEnds(t *testing.T, n *nodes) {
	n.Exec(`UPDATE QRTZ_JOB SET RECOVERY = 1`)
	n.AddMany(30)
	finished, lost := 0, 0
	for i := range 20 {
		who := n.Join(fmt.Sprintf("m%d", i))
		won := n.claim(who, 1, n.due(at(1000000))...).Runs
		n.catchUp()
		var both sync.WaitGroup
		both.Go(func() {
			for _, r := range won {
				assert.NoError(t, patiently(func() error {
					done, err := n.stores[1].runs.Complete(context.Background(), []run.Result{succeeded(r)})
					switch {
					case err != nil:
						return err
					case len(done.Locked) > 0:
						return errLocked
					}
					finished += 1 - done.Late
					return nil
				}))
			}
		})
		var gone []run.LostRun
		both.Go(func() {
			assert.NoError(t, patiently(func() (err error) {
				some, err := n.stores[2].runs.Lose(context.Background(), who.ID, "its node died")
				gone = append(gone, some...)
				return err
			}))
		})
		both.Wait()
		lost += len(gone)
	}
	n.catchUp()
	t.Logf("%d finished, %d lost", finished, lost)
	for _, db := range n.dbs {
		var ends struct{ Succeeded, Lost, Recovered int }
		require.NoError(t, db.Get(&ends, `SELECT COUNT(IF(STATE = 'SUCCEEDED', 1, NULL)) AS succeeded, COUNT(IF(STATE = 'LOST', 1, NULL)) AS lost,
			COUNT(IF(STATE = 'PENDING', 1, NULL)) AS recovered FROM QRTZ_RUN`))
		require.Equal(t, [3]int{finished, lost, lost}, [3]int{ends.Succeeded, ends.Lost, ends.Recovered})
	}
}

// delay keeps what node 0 commits next from the other nodes for a while: they have this to do first.
func (n *nodes) delay() { n.Exec(`UPDATE MUCH SET V = V + 1`) }

func (n *nodes) makeMuch() {
	n.Exec(`CREATE TABLE MUCH (ID INT PRIMARY KEY, V INT)`)
	n.Exec(`INSERT INTO MUCH SELECT SEQ, 0 FROM seq_1_to_20000`)
	n.catchUp()
}

func handBackBeforeArrival(t *testing.T, n *nodes) {
	n.makeMuch()
	n.AddMany(3)
	who := n.Join("n1")
	n.catchUp()
	for range 15 {
		moves := claims(n.due(at(1000000)), 1)
		pending := n.AddPending()
		n.catchUp()
		n.delay()
		_, err := n.store.Claim(t.Context(), who, moves)
		require.NoError(t, err)
		runs := n.claimPending(who, pending)
		require.Len(t, runs, 1)
		require.NoError(t, patiently(func() error {
			moves, err = n.stores[1].HandBackFires(t.Context(), who, moves)
			if err == nil && len(moves) > 0 {
				err = errLocked
			}
			return err
		}))
		require.NoError(t, patiently(func() error {
			runs, err = n.stores[1].runs.HandBack(t.Context(), runs)
			if err == nil && len(runs) > 0 {
				err = errLocked
			}
			return err
		}))
		n.catchUp()
		require.Empty(t, holders(t, n.DB, "RUNNING"))
	}
}

func finishBeforeArrival(t *testing.T, n *nodes) {
	n.makeMuch()
	n.AddMany(3)
	who := n.Join("n1")
	n.catchUp()
	cfg, err := mysql.ParseDSN(n.dsns[1])
	require.NoError(t, err)
	cfg.Params = map[string]string{"wsrep_sync_wait": "7"}
	db, _ := n.OpenFaults(cfg.FormatDSN())
	store := newStore(db)
	for range 15 {
		n.delay()
		won := n.claim(who, 1, n.due(at(1000000))...).Runs
		require.NotEmpty(t, won)
		require.NoError(t, finish(t, store, won))
	}
	n.catchUp()
	require.Empty(t, holders(t, n.DB, "RUNNING"))
}

func migrateAtOnce(t *testing.T, n *nodes) {
	prefix := schema.Prefix("M_")
	var all sync.WaitGroup
	for range 2 {
		for _, db := range n.dbs {
			all.Go(func() {
				_, err := schema.Up(context.Background(), db.DB, prefix)
				assert.NoError(t, err)
			})
		}
	}
	all.Wait()
	n.catchUp()
	for _, db := range n.dbs {
		require.NoError(t, schema.Check(t.Context(), db.DB, prefix))
	}
}

// Nodes that come later begin by creating QRTZ_SCHEMA if it is not there, which aborts what writes that table just then.
func migrateWhileOthersBegin(t *testing.T, n *nodes) {
	ctx, cancel := context.WithCancel(t.Context())
	var others sync.WaitGroup
	for _, db := range n.dbs[1:] {
		others.Go(func() {
			for ctx.Err() == nil {
				_, _ = db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS M_SCHEMA LIKE QRTZ_SCHEMA`)
				time.Sleep(time.Millisecond)
			}
		})
	}
	for range 5 {
		_, err := schema.Up(t.Context(), n.DB.DB, "M_")
		assert.NoError(t, err)
		_, err = schema.Exec(t.Context(), n.DB, `DELETE FROM M_SCHEMA`)
		assert.NoError(t, err)
	}
	cancel()
	others.Wait()
}

// A transaction that is aborted within a packet would report that it has committed.
func sendNoPackets(t *testing.T, n *nodes) {
	link, err := schema.Dial(n.dsns[1])
	require.NoError(t, err)
	pool := link.Pool(1)
	defer func() { _ = pool.Close() }()
	conn, err := pool.Conn(t.Context())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	require.NoError(t, conn.Raw(func(raw any) error {
		require.False(t, raw.(interface{ TakesPackets() bool }).TakesPackets())
		return nil
	}))
}
