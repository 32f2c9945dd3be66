package worker

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/qrtz-go/qrtz"
	"github.com/qrtz-go/qrtz/schema"
)

const sqlExample = `{"statement": "INSERT INTO t VALUES (:run_id, :fire_time)"}`

// sqlClass carries out one statement. What it says about the run is bound as parameters, never written
// into the text; only :now becomes text: the server's own clock, so that it costs no round trip.
type sqlClass struct{ db *sql.DB }

func (c sqlClass) run(ctx context.Context, run *qrtz.Run, data json.RawMessage) error {
	var want struct {
		Statement string `json:"statement"`
	}
	if err := decode(data, &want, "sql", sqlExample); err != nil {
		return err
	}
	if strings.TrimSpace(want.Statement) == "" {
		return fmt.Errorf("JOB_DATA of class sql: statement is empty; want for example %s", sqlExample)
	}
	query, args, err := bind(want.Statement, run)
	if err != nil {
		return fmt.Errorf("JOB_DATA of class sql: statement: %w", err)
	}
	if _, err := c.db.ExecContext(ctx, query, args...); err != nil {
		return fmt.Errorf("class sql: %w", err)
	}
	return nil
}

// names are the parameters that a statement may use.
var names = []string{"run_id", "execute_id", "job_id", "fire_time", "attempt", "node", "fence", "now"}

// bind replaces :name by ? and returns the values in order. Times are in milliseconds since the epoch.
func bind(statement string, run *qrtz.Run) (string, []any, error) {
	var query strings.Builder
	var args []any
	for _, t := range tokens(statement) {
		switch {
		case t == "?":
			return "", nil, fmt.Errorf("a bare ? has no value: use one of :%s", strings.Join(names, ", :"))
		case t == ":now":
			query.WriteString(schema.NowMillisSQL)
		case len(t) > 1 && t[0] == ':' && startsName(t[1]):
			value, err := parameter(t[1:], run)
			if err != nil {
				return "", nil, err
			}
			query.WriteByte('?')
			args = append(args, value)
		default:
			query.WriteString(t)
		}
	}
	return query.String(), args, nil
}

func parameter(name string, run *qrtz.Run) (any, error) {
	switch name {
	case "run_id":
		return run.ID, nil
	case "execute_id":
		return sql.NullInt64{Int64: run.ScheduleID, Valid: run.ScheduleID != 0}, nil
	case "job_id":
		return run.JobID, nil
	case "fire_time":
		return run.FireTime.UnixMilli(), nil
	case "attempt":
		return run.Attempt, nil
	case "node":
		return run.Node, nil
	case "fence":
		return run.Fence, nil
	}
	problem := fmt.Sprintf("unknown parameter :%s: allowed are :%s", name, strings.Join(names, ", :"))
	if slices.Contains(names, strings.ToLower(name)) {
		problem += " (in lower case)"
	}
	return nil, errors.New(problem)
}

// tokens splits a statement into named parameters, bare question marks and the text between them.
// Joined, they are the statement. Quoted text, quoted names and comments are never looked into.
func tokens(statement string) []string {
	var all []string
	from := 0
	for i := 0; i < len(statement); {
		end := i + 1
		switch c := statement[i]; {
		case skipped(statement[i:]) > 0:
			i += skipped(statement[i:])
			continue
		case c == '?':
		case c == ':' && i+1 < len(statement) && startsName(statement[i+1]):
			for end < len(statement) && inName(statement[end]) {
				end++
			}
		default:
			i++
			continue
		}
		if from < i {
			all = append(all, statement[from:i])
		}
		all = append(all, statement[i:end])
		from, i = end, end
	}
	if from < len(statement) {
		all = append(all, statement[from:])
	}
	return all
}

// skipped is the length of the quoted text or comment that s begins with; 0 if it begins with neither.
// Without its end it reaches to the end of s: the server will say what is wrong with it.
func skipped(s string) int {
	switch {
	case s[0] == '\'' || s[0] == '"' || s[0] == '`':
		return quoted(s)
	case s[0] == '#', strings.HasPrefix(s, "--") && (len(s) == 2 || s[2] <= ' '):
		return upTo(s, "\n", 1)
	case strings.HasPrefix(s, "/*"):
		return upTo(s, "*/", 2)
	}
	return 0
}

// quoted is the length of the quoted text. A doubled quote needs no care: it ends one text and begins the next.
func quoted(s string) int {
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && s[0] != '`':
			i++
		case s[i] == s[0]:
			return i + 1
		}
	}
	return len(s)
}

func upTo(s, end string, from int) int {
	if i := strings.Index(s[from:], end); i >= 0 {
		return from + i + len(end)
	}
	return len(s)
}

func startsName(c byte) bool { return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
func inName(c byte) bool     { return startsName(c) || '0' <= c && c <= '9' }
