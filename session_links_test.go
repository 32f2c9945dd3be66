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
