package main

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/examples/internal/program"
	"github.com/qrtz-go/qrtz/qrtztest"
)

func TestMain(m *testing.M) { program.Main(m, main) }

// Two processes at a time take orders. One is stopped as a deploy does it, and one is killed; others take their places. Afterwards, every
// order that was committed has one invoice, the money is where it belongs, to the cent, and the reports have counted each order once.
func TestProcessesAreDeployedAndKilled(t *testing.T) {
	dsn := qrtztest.DSN(t)
	db, err := sql.Open("mysql", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	s := &shop{db: db, bank: &badBank{db: db}}
	require.NoError(t, s.migrate(t.Context()))
	count := func(query string) (n int) {
		t.Helper()
		require.NoError(t, db.QueryRowContext(t.Context(), query).Scan(&n))
		return n
	}
	start := func(node string, more ...string) *program.Program {
		return program.Start(t, dsn, append([]string{"-node", node, "-quick", "-night", "2s"}, more...)...)
	}
	orders := func(more int) {
		t.Helper()
		want := count(`SELECT COUNT(*) FROM SHOP_ORDERS`) + more
		require.Eventually(t, func() bool { return count(`SELECT COUNT(*) FROM SHOP_ORDERS`) >= want }, time.Minute, 50*time.Millisecond)
	}
	const placing = "20"
	first, second := start("first", "-place", placing), start("second", "-place", placing)
	orders(100)
	third := start("third", "-place", placing)
	first.Stop() // within DrainTimeout, and without an error
	orders(50)
	second.Kill()
	orders(50)
	third.Stop()
	last := start("last")
	var b books
	for end := time.Now().Add(2 * time.Minute); ; {
		b, err = s.books(t.Context())
		require.NoError(t, err)
		if b.Open == 0 && b.Reported == b.Orders {
			break
		}
		require.True(t, time.Now().Before(end), "not all is paid and reported: %s\n%s", b, left(t, db))
		<-time.After(100 * time.Millisecond)
	}
	last.Stop()
	t.Log(b)
	require.Empty(t, b.Wrong)
	require.GreaterOrEqual(t, b.Orders, 200)
	require.Equal(t, b.Orders, b.Invoices)
	for _, class := range []string{"invoice", "payment"} {
		t.Log(class, "runs that were LOST:", count(fmt.Sprintf(`SELECT COUNT(*) FROM QRTZ_V_RUN WHERE JOB = '%s' AND STATE = 'LOST'`, class)))
	}
}

// left says what qrtz still has to do, and what reports there were.
func left(t *testing.T, db *sql.DB) (text string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `SELECT CONCAT_WS(' ', ID, JOB, STATE, ATTEMPT, NODE, FIRE, MESSAGE, WHY) FROM QRTZ_V_RUN
		WHERE STATE IN ('PENDING', 'RUNNING') OR JOB = 'report' UNION ALL SELECT CONCAT_WS(' ', 'report', ID, UNTIL, ORDERS) FROM SHOP_REPORTS UNION ALL
		SELECT CONCAT_WS(' ', 'order', ID, STATE, PLACED_AT) FROM SHOP_ORDERS WHERE STATE NOT IN ('PAID', 'REFUSED')`)
	require.NoError(t, err)
	defer func() { require.NoError(t, rows.Close()) }()
	for rows.Next() {
		var line string
		require.NoError(t, rows.Scan(&line))
		text += line + "\n"
	}
	require.NoError(t, rows.Err())
	return text
}

func TestTheBooksOfAnEmptyShop(t *testing.T) {
	shop := program.Start(t, qrtztest.DSN(t), "-books")
	shop.Wait()
	require.Contains(t, shop.Log(), "0 orders: 0 paid (0 cents), 0 refused, 0 open; 0 invoices; 0 orders in reports; the sums are right")
}
