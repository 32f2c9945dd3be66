package execute

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"

	"github.com/qrtz-go/qrtz/schema"
)

// Difference is a column of a listed job or execute that does not say what the program declares: an operator has changed it.
type Difference struct {
	Column   string `json:"column"` // empty for a schedule that is declared and was deleted
	Declared string `json:"declared"`
	Stored   string `json:"stored"`
	Schedule string `json:"schedule,omitempty"` // that was deleted
}

func (d Difference) String() string {
	if d.Column == "" {
		return fmt.Sprintf("schedule %q is declared, and deleted", d.Schedule)
	}
	return fmt.Sprintf("%s is %q, declared %q", d.Column, d.Stored, d.Declared)
}

// differs compares what was declared last with what is stored.
func (f fields) differs(stored fields) (all []Difference) {
	for name, value := range f {
		now, known := stored[name]
		if known && now != value && (name != startColumn || value != "") {
			all = append(all, Difference{Column: name, Declared: value, Stored: now})
		}
	}
	slices.SortFunc(all, func(a, b Difference) int { return cmp.Compare(a.Column, b.Column) })
	return all
}

// hashedSQL is a column of data as DECLARED has it, of which a row may hold megabytes. It has the column for %s.
const hashedSQL = `IF(LENGTH(CONVERT(%[1]s USING utf8mb4)) > 256, CONCAT('sha256:', SHA2(CONVERT(%[1]s USING utf8mb4), 256)), %[1]s)`

// fields are the declared columns of a listed job.
func (j JobRecord) fields() fields {
	text := func(s *string) sql.NullString {
		if s == nil {
			return sql.NullString{}
		}
		return sql.NullString{String: *s, Valid: true}
	}
	return fieldsOf([]column{
		{"JOB_CLASS", j.Class},
		{"JOB_DATA", j.DataText},
		{"JOB_DESCRIPTION", text(j.Description)},
		{"RECOVERY", j.Recovery},
		{"OVERLAP", j.Overlap},
		{"QUEUE_LIMIT", j.QueueLimit},
		{"RUN_TIMEOUT", j.Timeout},
		{"ATTEMPTS", j.Attempts},
		{"BACKOFF", j.Backoff},
		{"MAX_BACKOFF", j.MaxBackoff},
		{"HISTORY", j.History},
		{"KEEP_FOR", j.KeepFor},
		{"KEEP_RUNS", j.KeepRuns},
		{"MAX_RUNNING", j.MaxRunning},
		{"PRIORITY", j.Priority},
	})
}

// compare says what of a listed job is not as declared.
func (j *JobRecord) compare() {
	if j.DeclaredText.Valid {
		j.Differs = readDeclared(j.DeclaredText, nil).Job.differs(j.fields())
	}
}

const (
	// declaredJobSQL is what is declared of a job itself; of its schedules there may be thousands.
	declaredJobSQL = `CASE WHEN JSON_VALID(J.DECLARED) THEN CONCAT('{"job":', JSON_EXTRACT(J.DECLARED, '$.job'), '}') END`

	declaredOfSQL      = `SELECT ID, DECLARED FROM QRTZ_JOB WHERE ID IN (?) AND DECLARED IS NOT NULL`
	namedExecutesOfSQL = `SELECT NAME FROM QRTZ_EXECUTE WHERE PID = ? AND NAME IS NOT NULL`
)

// compare says what of listed executes is not as declared. It reads the declaration of each of their jobs once.
func compare(ctx context.Context, on schema.On, rows []Record) error {
	jobs := map[int64]declared{}
	for _, r := range rows {
		jobs[r.JobID] = declared{}
	}
	if len(jobs) == 0 {
		return nil
	}
	var read []struct {
		ID       int64          `db:"ID"`
		Declared sql.NullString `db:"DECLARED"`
	}
	if err := on.Select(ctx, &read, declaredOfSQL, slices.Sorted(maps.Keys(jobs))); err != nil {
		return fmt.Errorf("read what is declared: %w", err)
	}
	for _, r := range read {
		jobs[r.ID] = readDeclared(r.Declared, nil)
	}
	for i := range rows {
		r := &rows[i]
		if r.Name == nil {
			continue
		}
		stored := DeclaredSchedule{Spec: r.spec(), Misfire: r.Misfire, CatchUpLimit: r.CatchUp}
		if r.Data != nil {
			stored.Data = []byte(*r.Data)
		}
		r.Differs = jobs[r.JobID].Schedules[*r.Name].differs(fieldsOf(stored.columns()))
	}
	return nil
}

// addDeleted says of a few jobs which of their declared schedules an operator has deleted.
func addDeleted(ctx context.Context, on schema.On, jobs []JobRecord) error {
	for i := range jobs {
		deleted, err := deletedSchedules(ctx, on, jobs[i].ID)
		if err != nil {
			return fmt.Errorf("read what is declared of job %d: %w", jobs[i].ID, err)
		}
		jobs[i].Differs = append(jobs[i].Differs, deleted...)
	}
	return nil
}

// deletedSchedules are the schedules that a job is declared with and does not have.
func deletedSchedules(ctx context.Context, on schema.On, jobID int64) (all []Difference, err error) {
	var read []struct {
		ID       int64          `db:"ID"`
		Declared sql.NullString `db:"DECLARED"`
	}
	if err := on.Select(ctx, &read, declaredOfSQL, []int64{jobID}); err != nil || len(read) == 0 {
		return nil, err
	}
	schedules := readDeclared(read[0].Declared, nil).Schedules
	if len(schedules) == 0 {
		return nil, nil
	}
	var names []string
	if err := on.Select(ctx, &names, namedExecutesOfSQL, jobID); err != nil {
		return nil, err
	}
	for _, name := range names {
		delete(schedules, name)
	}
	for _, name := range slices.Sorted(maps.Keys(schedules)) {
		all = append(all, Difference{Schedule: name})
	}
	return all, nil
}
