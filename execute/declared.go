package execute

import (
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/qrtz-go/qrtz/run"
)

// QRTZ_JOB.DECLARED is what a program declared last. It tells a column that the program has changed since from one that an
// operator has changed: the former is written, the latter is left alone. It is decided for each column by itself.

// declared is QRTZ_JOB.DECLARED.
type declared struct {
	// Job has the job's columns; nil if no program has declared the job.
	Job fields `json:"job,omitempty"`

	// Schedules has the columns of its schedules by their names. Those that were added by SQL or Client.Schedule are not in it.
	Schedules map[string]fields `json:"schedules,omitempty"`

	// Retired has the schedules that were declared earlier and are COMPLETE since.
	Retired map[string]fields `json:"retired,omitempty"`

	// JobRetired says that the program does not declare the job any more, and Retire has completed its schedules.
	JobRetired bool `json:"job_retired,omitempty"`
}

// fields are columns as they were declared, as text. A column that is not among them was declared by a release that did not
// note it.
type fields map[string]string

// readDeclared reads a column of QRTZ_JOB.DECLARED. Releases that left it NULL took all schedules with a name for declared.
// What cannot be read says nothing.
func readDeclared(column sql.NullString, named []string) (d declared) {
	if column.Valid && json.Unmarshal([]byte(column.String), &d) != nil {
		d = declared{}
	}
	if d.Schedules == nil {
		d.Schedules = map[string]fields{}
	}
	if d.Retired == nil {
		d.Retired = map[string]fields{}
	}
	if !column.Valid {
		for _, name := range named {
			d.Schedules[name] = fields{}
		}
	}
	return d
}

// column is a column with what a declaration, or a row, says of it.
type column struct {
	name  string
	value any
}

// longText is how long a value is, in bytes, of which DECLARED has but the hash.
const longText = 256

// text is the value as DECLARED has it: empty for NULL, a hash if it is long.
func (c column) text() string {
	text := ""
	switch v := c.value.(type) {
	case sql.NullString:
		text = v.String
	case sql.NullInt64:
		if v.Valid {
			text = fmt.Sprint(v.Int64)
		}
	case bool:
		text = "0"
		if v {
			text = "1"
		}
	default:
		text = fmt.Sprint(v)
	}
	if len(text) > longText {
		hash := sha256.Sum256([]byte(text))
		return "sha256:" + hex.EncodeToString(hash[:])
	}
	return text
}

func fieldsOf(columns []column) fields {
	f := fields{}
	for _, c := range columns {
		f[c.name] = c.text()
	}
	return f
}

// columns are the columns of the job's row that are declared.
func (d Declaration) columns() []column {
	all := []column{
		{"JOB_CLASS", d.Class},
		{"JOB_DATA", sql.NullString{String: string(d.Data), Valid: d.Data != nil}},
		{"JOB_DESCRIPTION", sql.NullString{String: d.Description, Valid: d.Description != ""}},
	}
	for i, value := range d.Options.Columns() {
		all = append(all, column{run.OptionNames[i], value})
	}
	return all
}

// columns are the columns of the execute's row that are declared. A START_TIME of NULL is unsaid.
func (d DeclaredSchedule) columns() []column {
	spec := d.Spec
	isCron := spec.Kind == Cron
	start := sql.NullInt64{}
	if !spec.Start.IsZero() {
		start = millis(spec.Start, 0)
	}
	return []column{
		{"JOB_TYPE", string(spec.Kind)},
		{"CRON", sql.NullString{String: spec.Cron, Valid: isCron}},
		{"ZONE_ID", sql.NullString{String: spec.Zone, Valid: isCron}},
		{"REPEAT_INTERVAL", sql.NullInt64{Int64: spec.Every.Milliseconds(), Valid: !isCron}},
		{startColumn, start},
		{"END_TIME", millis(spec.End, -1)},
		{"REPEAT_COUNT", spec.Repeat},
		{"MISFIRE", string(d.Misfire)},
		{"CATCH_UP_LIMIT", d.CatchUpLimit},
		{"JOB_DATA", sql.NullString{String: string(d.Data), Valid: d.Data != nil}},
	}
}

const startColumn = "START_TIME"

var (
	// ruleColumns say which times a schedule has: with another JOB_TYPE the others have no meaning.
	ruleColumns = []string{"JOB_TYPE", "CRON", "ZONE_ID", "REPEAT_INTERVAL"}
	specColumns = append([]string{startColumn, "END_TIME", "REPEAT_COUNT"}, ruleColumns...)
)

// take takes over what another declaration says of a column.
func (d *DeclaredSchedule) take(from DeclaredSchedule, column string) {
	switch column {
	case "JOB_TYPE":
		d.Spec.Kind = from.Spec.Kind
	case "CRON":
		d.Spec.Cron = from.Spec.Cron
	case "ZONE_ID":
		d.Spec.Zone = from.Spec.Zone
	case "REPEAT_INTERVAL":
		d.Spec.Every = from.Spec.Every
	case startColumn:
		d.Spec.Start = from.Spec.Start
	case "END_TIME":
		d.Spec.End = from.Spec.End
	case "REPEAT_COUNT":
		d.Spec.Repeat = from.Spec.Repeat
	case "MISFIRE":
		d.Misfire = from.Misfire
	case "CATCH_UP_LIMIT":
		d.CatchUpLimit = from.CatchUpLimit
	case "JOB_DATA":
		d.Data = from.Data
	}
}

// Finding is what Declare found different from what the program declares.
type Finding struct {
	Job, Schedule string // Schedule is empty for a column of the job's own, and for the schedule without a name

	// Column is empty if the schedule was deleted.
	Column           string
	Declared, Stored string // as text; of long values the hash

	// Former is the name that the job had, if another job has that name still, whose schedules are COMPLETE now.
	Former string

	// Written says that the program has changed its value, too: it took the place of the operator's.
	Written bool
}

func (d Finding) String() string {
	what := fmt.Sprintf("job %q", d.Job)
	if d.Schedule != "" {
		what += fmt.Sprintf(", schedule %q", d.Schedule)
	}
	switch {
	case d.Former != "":
		return fmt.Sprintf("%s: there is a job %q, too, its former name; the schedules of that one are COMPLETE now", what, d.Former)
	case d.Column == "":
		return what + ": declared, and deleted"
	case d.Written:
		return fmt.Sprintf("%s: %s was %q, and is now %q as declared", what, d.Column, d.Stored, d.Declared)
	default:
		return fmt.Sprintf("%s: %s is %q, declared %q", what, d.Column, d.Stored, d.Declared)
	}
}

// merged is what becomes of a row.
type merged struct {
	write []column
	apart []Finding // what an operator has changed
}

func (m merged) writes(columns []string) bool {
	return slices.ContainsFunc(m.write, func(c column) bool { return slices.Contains(columns, c.name) })
}

// merge decides about the columns of a row. base is what was declared last, ours what is declared now and theirs what is stored.
// What has changed in the program since base is written, and so is what is forced. With reset all is.
func merge(base fields, ours, theirs []column, reset bool, forced ...string) (m merged) {
	for i, our := range ours {
		declared, stored := our.text(), theirs[i].text()
		if declared == stored || our.name == startColumn && declared == "" {
			continue
		}
		was, known := base[our.name]
		write := !known || was != declared || reset || slices.Contains(forced, our.name)
		if write {
			m.write = append(m.write, our)
		}
		defaulted := our.name == startColumn && was == "" // what is stored was the time of the first declaration
		if known && was != stored && !defaulted && !reset {
			m.apart = append(m.apart, Finding{Column: our.name, Declared: declared, Stored: stored, Written: write})
		}
	}
	return m
}

// mergeSchedule is merge for a schedule. It returns the schedule as it will be, too. A schedule of the program's and the
// operator's columns that makes no sense is the program's.
func mergeSchedule(schedules *Schedules, base fields, ours, theirs DeclaredSchedule, reset bool) (merged, DeclaredSchedule) {
	var forced []string
	for {
		m := merge(base, ours.columns(), theirs.columns(), reset, forced...)
		result := theirs
		for _, c := range m.write {
			result.take(ours, c.name)
		}
		_, err := schedules.Parse(result.Spec)
		switch {
		case len(forced) == 0 && m.writes(ruleColumns) && theirs.Spec.Kind != ours.Spec.Kind:
			forced = ruleColumns
		case len(forced) < len(specColumns) && m.writes(specColumns) && err != nil:
			forced = specColumns
		default:
			return m, result
		}
	}
}

// unchanged tells whether a schedule is declared as it was, as far as that was noted.
func (f fields) unchanged(was fields) bool {
	for name, value := range was {
		if f[name] != value {
			return false
		}
	}
	return len(was) > 0
}
