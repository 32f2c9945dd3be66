package schema

import (
	"context"
	"fmt"
	"strings"
)

// blockersSQL lists transactions that have held locks for a while. It takes the PROCESS privilege, which few have.
const blockersSQL = `
SELECT T.trx_mysql_thread_id AS THREAD, TIMESTAMPDIFF(SECOND, T.trx_started, NOW()) AS SECONDS, T.trx_rows_locked AS LOCKED,
       COALESCE(P.USER, '') AS ACCOUNT, COALESCE(P.HOST, '') AS CLIENT
  FROM information_schema.INNODB_TRX T LEFT JOIN information_schema.PROCESSLIST P ON P.ID = T.trx_mysql_thread_id
 WHERE T.trx_rows_locked > 0 AND T.trx_started < NOW() - INTERVAL 1 SECOND ORDER BY T.trx_started LIMIT 3`

// Blockers names the transactions that perhaps hold the locks for which this process waits in vain. It is empty if the server
// does not tell.
func (t Tables) Blockers(ctx context.Context) string {
	var open []struct {
		Thread  int64  `db:"THREAD"`
		Seconds int64  `db:"SECONDS"`
		Locked  int64  `db:"LOCKED"`
		Account string `db:"ACCOUNT"`
		Client  string `db:"CLIENT"`
	}
	if err := t.DB.SelectContext(ctx, &open, blockersSQL); err != nil || len(open) == 0 {
		return "" // it is only to help
	}
	names := make([]string, len(open))
	for i, o := range open {
		names[i] = fmt.Sprintf("thread %d of %s@%s, open for %d s with %d rows locked (KILL %d ends it)", o.Thread, o.Account, o.Client, o.Seconds, o.Locked, o.Thread)
	}
	return ", perhaps by " + strings.Join(names, ", or ")
}
