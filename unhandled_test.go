package qrtz_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz"
)

// A program that declares or enqueues what nothing handles is told so once, and at once.
func TestDeclareAndEnqueueHintAtAClassWithoutAHandler(t *testing.T) {
	c := newCluster(t)
	var said bytes.Buffer
	log := zerolog.New(&said)
	s, err := qrtz.Open(c.db, qrtz.Config{App: "test", Logger: &log})
	require.NoError(t, err)
	qrtz.Handle(s, "own", func(context.Context, *qrtz.Run, struct{}) error { return nil })
	ctx := t.Context()
	hints := func() int { return strings.Count(said.String(), "nothing runs this job now") }

	require.NoError(t, s.Declare(ctx, qrtz.Job{Name: "own"}, qrtz.Job{Name: "declared", Class: "nowhere"}))
	require.Equal(t, 1, hints(), said.String())
	require.Contains(t, said.String(), `"job":"declared","class":"nowhere","why":"no live node has a handler for its class"`)
	for range 3 {
		_, err = s.Enqueue(ctx, "declared", nil)
		require.NoError(t, err)
		_, err = s.Enqueue(ctx, "own", nil)
		require.NoError(t, err)
	}
	require.Equal(t, 1, hints(), "once")
	c.exec(`INSERT INTO QRTZ_JOB (APPLICATION, JOB_CLASS, NAME) VALUES ('test', 'retired', 'by SQL'), ('test', 'tick', 'ticking')`)
	tx := c.begin()
	for range 3 {
		_, err = s.In(tx).Enqueue(ctx, "by SQL", nil)
		require.NoError(t, err)
	}
	require.NoError(t, tx.Commit())
	require.Equal(t, 2, hints(), said.String())

	c.node("n1")
	c.eventually("its node", 10*time.Second, func() bool { return c.count(`SELECT COUNT(INSTANCE) FROM QRTZ_NODE`) == 1 })
	_, err = s.Enqueue(ctx, "ticking", nil)
	require.NoError(t, err)
	require.Equal(t, 2, hints(), "a live node handles it")
}
