package qrtz

import (
	"database/sql"
	"errors"
	"sync"
	"time"
)

const (
	commitLook    = time.Millisecond // how often a transaction is asked whether it has ended, at first
	commitFor     = 30 * time.Second // after which its runs are left to the sweep
	mostWatched   = 1000             // transactions that are watched at a time
	mostOfCommits = 10_000           // runs that are remembered of one
)

// commits watches the transactions of callers in which runs are added (Scheduler.In), to claim them as soon as they are
// committed. It asks the sql.Tx, not the server: all operations on one that has ended fail with sql.ErrTxDone. Whether it has
// been committed, the poller sees.
type commits struct {
	told func(runs ...int64)

	mu      sync.Mutex
	watched map[*sql.Tx][]int64
}

// watch has the runs told when their transaction has ended. It does not wait for that.
func (c *commits) watch(tx *sql.Tx, runs []int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, watched := c.watched[tx]
	if !watched && len(c.watched) >= mostWatched || len(known) >= mostOfCommits {
		return // the sweep finds them
	}
	c.watched[tx] = append(known, runs...)
	if !watched {
		go c.await(tx) // of its own: a transaction may be stuck
	}
}

func (c *commits) await(tx *sql.Tx) {
	began := time.Now()
	for !txEnded(tx) {
		age := time.Since(began)
		if age > commitFor {
			c.take(tx)
			return
		}
		<-time.After(max(commitLook, age/50))
	}
	c.told(c.take(tx)...)
}

func (c *commits) take(tx *sql.Tx) []int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	runs := c.watched[tx]
	delete(c.watched, tx)
	return runs
}

// txEnded tells whether a transaction has been committed or rolled back, without a word to the server: the statement is of no
// database.
func txEnded(tx *sql.Tx) bool {
	none := tx.Stmt(&sql.Stmt{})                  //nolint:noctx // it talks to no server
	return errors.Is(none.Close(), sql.ErrTxDone) //nolint:sqlclosecheck // it was never open, and Close says why
}

// enqueued has the scheduler in this process, if it runs, claim runs that have been added: at once, or when the caller's
// transaction has been committed. Others find them by their sweep.
func (c *Client) enqueued(runs ...int64) {
	session := c.session.Load()
	switch {
	case session == nil || len(runs) == 0:
	case c.tx != nil:
		session.commits.watch(c.tx.Tx, runs)
	default:
		session.poller.Enqueued(runs...)
	}
}
