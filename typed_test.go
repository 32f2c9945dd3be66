package qrtz_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz"
)

// Order is what an invoice is made of.
type Order struct{ Customer string }

// Invoice is a job that both who enqueues it and who handles it refer to.
var Invoice = qrtz.NewJob[Order]("invoice")

// What enqueues a job and what handles it are checked by the compiler.
func ExampleNewJob() {
	var s *qrtz.Scheduler
	var tx *sql.Tx
	ctx := context.Background()

	Invoice.Handle(s, func(ctx context.Context, run *qrtz.Run, order Order) error {
		return send(ctx, invoice(order))
	})
	job := Invoice.Job(qrtz.Cron("0 0 6 1 * ?", "UTC", Invoice.With(Order{"everybody"})))
	job.Attempts = 5
	must(s.Declare(ctx, job))

	_, err := Invoice.Enqueue(ctx, s, Order{"Ada"})
	must(err)
	_, err = Invoice.Enqueue(ctx, s.In(tx), Order{"Grace"}) // if and only if tx commits
	must(err)
}

func TestATypedJobIsHandledDeclaredAndEnqueued(t *testing.T) {
	c := newCluster(t)
	came := make(chan string, 10)
	n := c.open(patient("n1"), func(s *qrtz.Scheduler) {
		Invoice.Handle(s, func(_ context.Context, run *qrtz.Run, o Order) error {
			came <- run.Class + " " + o.Customer
			return nil
		})
	})
	ctx := t.Context()
	require.NoError(t, n.Declare(ctx, Invoice.Job(qrtz.At(time.Now(), Invoice.With(Order{"everybody"})))))
	c.start(n)
	require.Equal(t, "invoice everybody", arrives(t, came, within))
	_, err := Invoice.Enqueue(ctx, n, Order{"Ada"})
	require.NoError(t, err)
	require.Equal(t, "invoice Ada", arrives(t, came, within))
	tx := c.begin()
	_, err = Invoice.Enqueue(ctx, n.In(tx), Order{"Grace"})
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	require.Equal(t, "invoice Grace", arrives(t, came, within))
	require.Equal(t, "invoice", Invoice.Name())
}
