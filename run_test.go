package qrtz_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A program that is told to stop while it starts has not failed.
func TestRunWithAnEndedContextReturnsNil(t *testing.T) {
	c := newCluster(t)
	s := c.open(quick("n1"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, s.Run(ctx))
	require.Zero(t, c.count(`SELECT COUNT(*) FROM QRTZ_APP`), "it has not registered")
	require.Zero(t, c.count(`SELECT COUNT(*) FROM QRTZ_NODE`))
}

// Wherever in its start the context ends: nothing is left that looks alive, and Run can be called again.
func TestRunWhoseContextEndsWhileItStartsReturnsNil(t *testing.T) {
	c := newCluster(t)
	s := c.open(quick("n1"))
	for after := time.Duration(0); after < 60*time.Millisecond; after += 2 * time.Millisecond {
		ctx, cancel := context.WithTimeout(t.Context(), after)
		require.NoError(t, s.Run(ctx), after)
		cancel()
		require.Zero(t, c.count(`SELECT COUNT(*) FROM QRTZ_NODE WHERE INSTANCE IS NOT NULL`), after)
	}
}

func TestRunSaysWhatFailsWhileItsContextLasts(t *testing.T) {
	c := newCluster(t)
	cfg := quick("n1")
	cfg.Prefix = "NOT_THERE_"
	s := c.open(cfg)
	require.ErrorContains(t, s.Run(t.Context()), "migrate")
}
