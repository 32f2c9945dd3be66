package execute

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// Glance says what there is to look for. It costs one statement of a few index lookups.
type Glance struct {
	AppOn      bool          `db:"APP_ON"`
	NodeOn     bool          `db:"NODE_ON"`
	Overdue    bool          `db:"OVERDUE"`     // active executes past their time
	New        bool          `db:"FRESH"`       // active executes without a next fire
	WithoutApp bool          `db:"WITHOUT_APP"` // executes that do not say which app they belong to
	Paused     bool          `db:"PAUSED"`      // executes paused by SQL and not yet marked (MarkPaused)
	Pending    bool          `db:"PENDING"`     // runs to be claimed, or so many that it is for a look to tell
	Changed    sql.NullInt64 `db:"CHANGED"`     // when an execute was last added or changed by SQL, in ms
}

// ChangedAt is when an execute was last added or changed by SQL, by the server's clock.
func (g Glance) ChangedAt() time.Time { return fromMillis(g.Changed) }

// glancedRuns is how many pending runs a glance looks at. Behind as many that this node cannot run there may be others.
const glancedRuns = 64

// Where much is pending, the server would else look for it among all runs that the jobs have ever had.
const glanceSQL = `
SELECT COALESCE((SELECT STATE = 'Y' FROM QRTZ_APP WHERE APPLICATION = ?), 0) AS APP_ON,
       COALESCE((SELECT STATE = 'Y' FROM QRTZ_NODE WHERE APPLICATION = ? AND HOST_IP = ?), 0) AS NODE_ON,
       EXISTS (SELECT 1 FROM QRTZ_EXECUTE E JOIN QRTZ_JOB J ON J.ID = E.PID AND J.APPLICATION = E.APPLICATION
                WHERE E.APPLICATION = ? AND E.STATE = 'EXECUTING' AND E.NEXT_FIRE_TIME BETWEEN ? AND ? AND J.JOB_CLASS IN (?)) AS OVERDUE,
       EXISTS (SELECT 1 FROM QRTZ_EXECUTE E JOIN QRTZ_JOB J ON J.ID = E.PID AND J.APPLICATION = E.APPLICATION
                WHERE E.APPLICATION = ? AND E.STATE = 'EXECUTING' AND E.NEXT_FIRE_TIME IS NULL AND J.JOB_CLASS IN (?))
       OR EXISTS (SELECT 1 FROM QRTZ_EXECUTE E JOIN QRTZ_JOB J ON J.ID = E.PID AND J.APPLICATION = E.APPLICATION
                WHERE E.APPLICATION = ? AND E.STATE = 'EXECUTING' AND E.NEXT_FIRE_TIME < 1 AND J.JOB_CLASS IN (?)) AS FRESH,
       EXISTS (SELECT 1 FROM QRTZ_EXECUTE E JOIN QRTZ_JOB J ON J.ID = E.PID WHERE E.APPLICATION IS NULL AND J.APPLICATION = ?) AS WITHOUT_APP,
       COALESCE((SELECT 1 FROM QRTZ_RUN FORCE INDEX (QRTZ_RUN_STATE)
                  WHERE APPLICATION = ? AND STATE = 'PENDING' AND AVAILABLE_AT <= ? ORDER BY AVAILABLE_AT, ID LIMIT 1 OFFSET ?), 0)
       OR EXISTS (SELECT 1 FROM (SELECT JOB_ID, APPLICATION FROM QRTZ_RUN FORCE INDEX (QRTZ_RUN_STATE)
                                  WHERE APPLICATION = ? AND STATE = 'PENDING' AND AVAILABLE_AT <= ? ORDER BY AVAILABLE_AT, ID LIMIT ?) R
                   STRAIGHT_JOIN QRTZ_JOB J FORCE INDEX (PRIMARY) ON J.ID = R.JOB_ID AND J.APPLICATION = R.APPLICATION AND J.JOB_CLASS IN (?)) AS PENDING,
       EXISTS (SELECT 1 FROM QRTZ_EXECUTE WHERE APPLICATION = ? AND CHANGED_AT >= FROM_UNIXTIME(? / 1000)
                  AND STATE = 'PAUSED' AND PAUSED_AT IS NULL) AS PAUSED,
       (SELECT CAST(UNIX_TIMESTAMP(MAX(CHANGED_AT)) * 1000 AS SIGNED) FROM QRTZ_EXECUTE WHERE APPLICATION = ?) AS CHANGED`

// Look is what a Glance looks for.
type Look struct {
	NodeID      string    // of the node whose switch matters
	Classes     []string  // what it has handlers for
	From, Until time.Time // between which a fire is overdue
	Now         time.Time // when a run must be available to be found
	Since       time.Time // of changes, by the server's clock
}

// Glance looks for fires that their owner did not claim in time, for what is new, and at the switches.
func (s *Store) Glance(ctx context.Context, l Look) (Glance, error) {
	classes := l.Classes
	if len(classes) == 0 {
		classes = []string{""} // IN () is no SQL
	}
	var g []Glance
	now, from, until := l.Now.UnixMilli(), l.From.UnixMilli(), l.Until.UnixMilli()
	err := s.db.Select(ctx, &g, glanceSQL,
		s.app, s.app, l.NodeID, // switches
		s.app, from, until, classes, // overdue
		s.app, classes, s.app, classes, // new
		s.app,                                                       // without app
		s.app, now, glancedRuns-1, s.app, now, glancedRuns, classes, // pending
		s.app, l.Since.UnixMilli(), // paused
		s.app) // changed
	if err != nil {
		return Glance{}, fmt.Errorf("glance: %w", err)
	}
	return g[0], nil
}
