package qrtz_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz"
)

// What is declared on one database would never be run by claims on another.
func TestANodeDoesNotStartOnTwoDatabases(t *testing.T) {
	c, other := newCluster(t), newCluster(t)
	cfg := quick("n1")
	cfg.DSN = other.dsn
	for _, there := range []string{"both have the tables", "one has none"} {
		t.Run(there, func(t *testing.T) {
			if there == "one has none" {
				c.exec(`RENAME TABLE QRTZ_HEARTBEAT TO QRTZ_HEARTBEAT_GONE`)
			}
			s, err := qrtz.Open(c.db, cfg)
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			err = s.Run(ctx)
			require.ErrorContains(t, err, "both must lead to the same database")
			for _, one := range []*cluster{c, other} {
				require.ErrorContains(t, err, "database "+one.text(`SELECT DATABASE()`)+" of ")
			}
			require.Zero(t, other.count(`SELECT COUNT(*) FROM QRTZ_NODE WHERE INSTANCE IS NOT NULL`), "it has left")
		})
	}
	c.exec(`RENAME TABLE QRTZ_HEARTBEAT_GONE TO QRTZ_HEARTBEAT`)
	s, err := qrtz.Open(other.db, cfg)
	require.NoError(t, err)
	n := other.start(s)
	other.eventually("it joins", 10*time.Second, func() bool {
		return other.count(`SELECT COUNT(*) FROM QRTZ_NODE WHERE INSTANCE IS NOT NULL`) == 1
	})
	n.halt()
}

// docs/sizing.md counts with it.
func TestANodeKeepsSevenConnections(t *testing.T) {
	for _, own := range []bool{true, false} {
		c := newCluster(t)
		cfg := patient("n1")
		if own {
			cfg.DSN = c.dsn
		}
		n := c.start(c.open(cfg))
		ticking(t, n.Scheduler, 10, 200*time.Millisecond)
		c.ran(50, 5*time.Second, all)
		connections := c.count(`SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = DATABASE()`)
		lent := c.db.Stats()
		if own {
			require.Equal(t, 7, connections-lent.OpenConnections)
			require.LessOrEqual(t, lent.InUse, 1)
		} else {
			require.GreaterOrEqual(t, lent.InUse, 7)
			require.Less(t, lent.InUse, 9)
		}
		n.halt()
	}
}

// Handlers that hold every connection of the pool, for longer than NodeTimeout, delay neither heartbeats nor claims nor results.
func TestHandlersThatHoldThePoolDelayNothingElse(t *testing.T) {
	c := newCluster(t)
	cfg := quick("n1")
	cfg.DSN = c.dsn
	c.db.SetMaxOpenConns(2)
	release := make(chan struct{})
	s := c.open(cfg, func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "holds", func(ctx context.Context, _ *qrtz.Run, _ struct{}) error {
			conn, err := c.db.Conn(ctx)
			if err != nil {
				return err
			}
			<-release
			return conn.Close()
		})
	})
	ticking(t, s, 1, 200*time.Millisecond)
	require.NoError(t, s.Declare(t.Context(), qrtz.Job{Name: "holds"}))
	for range 2 {
		_, err := s.Enqueue(t.Context(), "holds", nil)
		require.NoError(t, err)
	}
	n := c.start(s)
	c.eventually("both hold one", 5*time.Second, func() bool { return c.db.Stats().InUse == 2 })
	held := time.Now()
	c.ran(1, 2*cfg.NodeTimeout+5*time.Second, dueAfter(held.Add(2*cfg.NodeTimeout)))
	for _, f := range c.fires() {
		if f.FireTime.After(held) {
			require.Less(t, f.seen.Sub(f.FireTime), misfireAfter)
		}
	}
	close(release)
	n.halt()
	require.Zero(t, c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'LOST'`), "it was not fenced")
	require.Equal(t, 2, c.count(`SELECT COUNT(*) FROM QRTZ_RUN R JOIN QRTZ_JOB J ON J.ID = R.JOB_ID WHERE J.NAME = 'holds' AND R.STATE = 'SUCCEEDED'`))
}
