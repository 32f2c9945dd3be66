package execute

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/node"
	"github.com/qrtz-go/qrtz/run"
	"github.com/qrtz-go/qrtz/schema"
)

// What a claim leaves in QRTZ_RUN, and how this process learns what it has won.

// insertRuns adds to the packet of a batch of moves the rows that they leave in QRTZ_RUN.
func (s *Store) insertRuns(p *schema.Packet, who node.Instance, token int64, moves []Move) {
	fires := make([]run.Fires, len(moves))
	for i, m := range moves {
		fires[i] = run.Fires{ExecuteID: m.Execute.ID, Rows: m.Runs, One: m.claimsOne()}
	}
	s.runs.InsertMoved(p, who, token, fires)
}

func onlyOneFireEach(moves []Move) bool {
	return !slices.ContainsFunc(moves, func(m Move) bool { return !m.claimsOne() })
}

// winnings are what a packet's own rows say of it.
type winnings struct {
	moved map[int64]int64 // execute -> fence: those that carry our token
	runs  map[fireKey]wonRun
	data  map[int64][]byte // of the executes that have some of their own
	jobs  map[int64]jobRow
}

type fireKey struct{ execute, fire int64 }

// wonRun is the row of QRTZ_RUN that a fire has.
type wonRun struct {
	id    int64
	state run.State
	ours  bool // this claim inserted it; else it was there before
}

type jobRow struct {
	ID       int64  `db:"ID"`
	Class    string `db:"JOB_CLASS"`
	Data     []byte `db:"DATA"`
	DataSize int64  `db:"DATA_SIZE"`
	run.OptionRow
}

const (
	// The count of affected rows does not tell what was won: a loser on a Galera cluster was seen to report one.
	movedSQL = `SELECT E.ID, E.FENCE, IF(?, E.JOB_DATA, NULL) AS DATA FROM QRTZ_EXECUTE E FORCE INDEX (PRIMARY) WHERE E.ID IN (?) AND E.CLAIM_TOKEN = ?`

	wonColumns = `E.ID, E.FENCE, R.ID AS RUN_ID, R.FIRE_TIME, R.STATE, COALESCE(R.CLAIM_TOKEN = ?, 0) AS OURS`

	// wonOneEachSQL reads what was won by claims of one fire each, together with their runs.
	wonOneEachSQL = `
SELECT ` + wonColumns + `, E.JOB_DATA AS DATA
  FROM QRTZ_EXECUTE E FORCE INDEX (PRIMARY)
  LEFT JOIN QRTZ_RUN R FORCE INDEX (QRTZ_RUN_FIRE) ON R.EXECUTE_ID = E.ID AND R.FIRE_TIME = E.PREV_FIRE_TIME AND R.ATTEMPT = 1
 WHERE E.ID IN (?) AND E.CLAIM_TOKEN = ?`

	// wonFewSQL also reads what few runs need of their jobs.
	wonFewSQL = `
SELECT E.ID AS EXECUTE_ID, E.FENCE, R.ID AS RUN_ID, R.FIRE_TIME, R.STATE, COALESCE(R.CLAIM_TOKEN = ?, 0) AS OURS, E.JOB_DATA AS OWN_DATA,
       COALESCE(J.ID, 0) AS ID, COALESCE(J.JOB_CLASS, '') AS JOB_CLASS,
       ` + run.JobDataColumns + `, ` + run.OptionColumns + `
  FROM QRTZ_EXECUTE E FORCE INDEX (PRIMARY)
  LEFT JOIN QRTZ_RUN R FORCE INDEX (QRTZ_RUN_FIRE) ON R.EXECUTE_ID = E.ID AND R.FIRE_TIME = E.PREV_FIRE_TIME AND R.ATTEMPT = 1
  LEFT JOIN QRTZ_JOB J ON J.ID = E.PID
 WHERE E.ID IN (?) AND E.CLAIM_TOKEN = ?`

	// wonManySQL reads the rows of other moves.
	wonManySQL = `
SELECT ` + wonColumns + `, NULL AS DATA
  FROM %s F STRAIGHT_JOIN QRTZ_EXECUTE E FORCE INDEX (PRIMARY) ON E.ID = F.ID
  STRAIGHT_JOIN QRTZ_RUN R FORCE INDEX (QRTZ_RUN_FIRE) ON R.EXECUTE_ID = F.ID AND R.FIRE_TIME = F.FIRE AND R.ATTEMPT = 1
 WHERE E.CLAIM_TOKEN = ?`
)

// fewMoves are moves of which most have a job of their own, and whose jobs are read together with what was won.
const fewMoves = 32

// wonRow is what wonFewSQL reads.
type wonRow struct {
	ExecuteID int64          `db:"EXECUTE_ID"`
	Fence     int64          `db:"FENCE"`
	RunID     sql.NullInt64  `db:"RUN_ID"`
	FireTime  sql.NullInt64  `db:"FIRE_TIME"`
	State     sql.NullString `db:"STATE"`
	Ours      bool           `db:"OURS"`
	OwnData   []byte         `db:"OWN_DATA"`
	jobRow
}

// withJobs tells whether the jobs of a batch of moves are read together with what was won.
func withJobs(moves []Move) bool {
	return len(moves) <= fewMoves && onlyOneFireEach(moves) && len(firesWith(moves, run.Running)) > 0
}

// readFew is readBack and readJobs in one.
func readFew(p *schema.Packet, won *winnings, token int64, ids []int64) {
	won.jobs = map[int64]jobRow{}
	p.Select(func(r *sqlx.Rows) error {
		var row wonRow
		if err := r.StructScan(&row); err != nil {
			return err
		}
		won.moved[row.ExecuteID] = row.Fence
		won.note(row.ExecuteID, row.OwnData)
		if row.RunID.Valid {
			won.runs[fireKey{row.ExecuteID, row.FireTime.Int64}] = wonRun{row.RunID.Int64, run.State(row.State.String), row.Ours}
		}
		if row.ID != 0 {
			won.jobs[row.ID] = row.jobRow
		}
		return nil
	}, wonFewSQL, token, ids, token)
}

// readBack asks, within the transaction, which executes carry our token: those are ours. It also asks for the runs of the
// fires that are to start here, whether this claim inserted them or not: a fire that has none needs none. Of fires that are
// skipped it asks for the row that says so.
func readBack(p *schema.Packet, won *winnings, token int64, ids []int64, moves []Move) {
	won.moved, won.runs = make(map[int64]int64, len(moves)), make(map[fireKey]wonRun, len(moves))
	if withJobs(moves) {
		readFew(p, won, token, ids)
		return
	}
	scan := func(r *sqlx.Rows) error {
		var id, fence int64
		var runID, fire sql.NullInt64
		var state sql.NullString
		var ours bool
		var data []byte
		if err := r.Scan(&id, &fence, &runID, &fire, &state, &ours, &data); err != nil {
			return err
		}
		won.moved[id] = fence
		won.note(id, data)
		if runID.Valid {
			won.runs[fireKey{id, fire.Int64}] = wonRun{runID.Int64, run.State(state.String), ours}
		}
		return nil
	}
	left := firesWith(moves, run.Running, run.Skipped)
	if len(left) > 0 && onlyOneFireEach(moves) {
		p.Select(scan, wonOneEachSQL, token, ids, token)
		return
	}
	p.Select(func(r *sqlx.Rows) error {
		var id, fence int64
		var data []byte
		err := r.Scan(&id, &fence, &data)
		won.moved[id] = fence
		won.note(id, data)
		return err
	}, movedSQL, len(firesWith(moves, run.Running)) > 0, ids, token)
	if len(left) > 0 {
		table, args := schema.Values(left, "ID", "FIRE")
		p.Select(scan, fmt.Sprintf(wonManySQL, table), slices.Concat([]any{token}, args, []any{token})...)
	}
}

// note keeps the data that an execute has, if it has some.
func (w *winnings) note(execute int64, data []byte) {
	if data == nil {
		return
	}
	if w.data == nil {
		w.data = map[int64][]byte{}
	}
	w.data[execute] = data
}

// rowOf is the id of the row that a fire of an execute was given; 0 if it has none of ours.
func (w *winnings) rowOf(execute int64, left run.NewRun) int64 {
	if row := w.runs[fireKey{execute, left.FireTime.UnixMilli()}]; row.ours && row.state == left.State {
		return row.id
	}
	return 0
}

// firesWith are, one after another, the executes and times of the fires that a batch of moves leaves in one of some states.
func firesWith(moves []Move, states ...run.State) (fires []any) {
	for i := range moves {
		for _, r := range moves[i].Runs {
			if slices.Contains(states, r.State) {
				fires = append(fires, moves[i].Execute.ID, r.FireTime.UnixMilli())
			}
		}
	}
	return fires
}

const jobsSQL = `
SELECT J.ID, J.JOB_CLASS, ` + run.JobDataColumns + `, ` + run.OptionColumns + `
  FROM QRTZ_JOB J WHERE J.ID IN (?)`

// readJobs reads what the runs need of their jobs, when nothing is locked any more.
func readJobs(p *schema.Packet, won *winnings, moves []Move) {
	if len(firesWith(moves, run.Running)) == 0 || withJobs(moves) {
		return
	}
	won.jobs = map[int64]jobRow{}
	var ids []int64
	for i := range moves {
		ids = append(ids, moves[i].Execute.JobID)
	}
	slices.Sort(ids)
	p.Then(func(r *sqlx.Rows) error {
		var row jobRow
		err := r.StructScan(&row)
		won.jobs[row.ID] = row
		return err
	}, jobsSQL, slices.Compact(ids))
}

// startWon sorts what a packet won. Runs that must be the only ones of their jobs it starts, if no other goes; the others are
// ours already.
func (s *Store) startWon(ctx context.Context, who node.Instance, moves []Move, won *winnings) (Applied, error) {
	var applied Applied
	var exclusive []run.Run
	for i := range moves {
		m := &moves[i]
		fence, ours := won.moved[m.Execute.ID]
		if !ours {
			continue
		}
		applied.Moved = append(applied.Moved, m.moved())
		for _, left := range m.Runs {
			if left.State == run.Skipped {
				applied.Skipped = append(applied.Skipped, run.SkippedFire{
					RunID: won.rowOf(m.Execute.ID, left), JobID: m.Execute.JobID, ExecuteID: m.Execute.ID, Class: m.Execute.Class,
					Job: m.Execute.JobName, Schedule: m.Execute.Name, NewRun: left,
				})
			}
			if left.State != run.Running {
				continue
			}
			job, exists := won.jobs[m.Execute.JobID]
			r := m.run(left, who, fence, job, won.data[m.Execute.ID])
			row, written := won.runs[fireKey{m.Execute.ID, left.FireTime.UnixMilli()}]
			switch {
			case written && !row.ours: // a person turned the execute back by SQL: it has run, or will
			case written && row.state == run.Pending:
				r.ID = row.id
				exclusive = append(exclusive, r)
			case written:
				r.ID = row.id
				applied.Runs = append(applied.Runs, r)
			case exists: // its job wanted no row when the fire was claimed, whatever it says now; one that is gone wants no run
				r.Options = r.Options.WithoutRow()
				applied.Runs = append(applied.Runs, r)
			}
		}
	}
	second, err := s.runs.StartExclusive(ctx, who, exclusive)
	applied.add(Applied{Runs: second.Runs, Skipped: second.Skipped, PendingInDoubt: second.InDoubt})
	return applied, err
}

func (m *Move) run(left run.NewRun, who node.Instance, fence int64, job jobRow, data []byte) run.Run {
	if data != nil { // the schedule's, in place of the job's
		job.Data, job.DataSize = data, int64(len(data))
	}
	class := job.Class
	if class == "" {
		class = m.Execute.Class // its job is gone
	}
	return run.Run{
		JobID: m.Execute.JobID, ExecuteID: m.Execute.ID, Class: class, Job: m.Execute.JobName, Schedule: m.Execute.Name, Data: job.Data, DataSize: job.DataSize, Options: job.Options(),
		FireTime: left.FireTime, Attempt: 1, Fence: fence, Instance: who.ID, Token: m.token,
	}
}
