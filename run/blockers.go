package run

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

// Blockers names, as far as the server tells, who holds locks that this process waits for in vain.
func (s *Store) Blockers(ctx context.Context) string {
	var open []struct {
		Thread  int64  `db:"THREAD"`
		Seconds int64  `db:"SECONDS"`
		Locked  int64  `db:"LOCKED"`
		Account string `db:"ACCOUNT"`
		Client  string `db:"CLIENT"`
	}
	if err := s.db.DB.SelectContext(ctx, &open, blockersSQL); err != nil || len(open) == 0 {
		return "" // it is only to help
	}
	names := make([]string, len(open))
	for i, t := range open {
		names[i] = fmt.Sprintf("thread %d of %s@%s, open for %d s with %d rows locked (KILL %d ends it)", t.Thread, t.Account, t.Client, t.Seconds, t.Locked, t.Thread)
	}
	return ", perhaps by " + strings.Join(names, ", or ")
}
