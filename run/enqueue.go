package run

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/schema"
)

const (
	maxKey    = 190       // bytes of a key
	maxData   = 1<<24 - 1 // bytes of JOB_DATA
	bulkBytes = 1 << 20   // of data in one statement that inserts several runs
)

// New is a run that a program or a person asks for.
type New struct {
	JobID    int64
	Data     []byte         // nil stands for the job's
	At       time.Time      // when it is due; zero for now
	Keyed    bool           // it has a key
	Key      string         // of which one run of the job may be PENDING or RUNNING
	Once     bool           // the key stays taken while the run is on record
	Timeout  *time.Duration // these take the place of the job's; nil: they do not
	Attempts *int
	Priority *Priority
}

// Validate names everything of the run that cannot be stored.
func (n New) Validate() error {
	var problems []error
	refuse := func(when bool, format string, args ...any) {
		if when {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	refuse(len(n.Data) > maxData, "data of %d bytes: at most %d are stored", len(n.Data), maxData)
	refuse(!n.At.IsZero() && (n.At.UnixMilli() < 100_000_000_000 || n.At.UnixMilli() > 253402300799999), "start at %s: want a time between 1973-03-03 and the year 9999", n.At)
	refuse(n.Keyed && n.Key == "" || len(n.Key) > maxKey, "key of %d bytes: want 1 to %d", len(n.Key), maxKey)
	refuse(strings.HasSuffix(n.Key, " "), "key %q: want no blank at its end, which the server does not tell from none", n.Key)
	refuse(!utf8.ValidString(n.Key), "key %q: want UTF-8", n.Key)
	if n.Timeout != nil {
		refuse(*n.Timeout < 0 || fromColumn(n.Timeout.Milliseconds()) != *n.Timeout, "timeout %s: want whole milliseconds, from 0 to 100 years", *n.Timeout)
	}
	if n.Attempts != nil {
		refuse(*n.Attempts < 1 || *n.Attempts > math.MaxInt32, "attempts %d: want at least 1 and at most %d", *n.Attempts, math.MaxInt32)
	}
	if n.Priority != nil {
		refuse(*n.Priority < PriorityLow || *n.Priority > PriorityHigh, "priority %d: want PriorityLow, PriorityNormal or PriorityHigh", *n.Priority)
	}
	return errors.Join(problems...)
}

func (n New) plain() bool {
	return n.Key == "" && n.Timeout == nil && n.Attempts == nil && n.Priority == nil
}

// Added is what became of a New.
type Added struct {
	ID    int64 // of the run; if the key is taken, of the first attempt of the run that has it
	Taken bool
}

const (
	plainColumns  = `APPLICATION, JOB_ID, FIRE_TIME, AVAILABLE_AT, JOB_DATA`
	ownColumns    = plainColumns + `, RUN_KEY, KEY_LIVE, KEY_ONCE, RUN_TIMEOUT, ATTEMPTS, PRIORITY`
	enqueueSQL    = `INSERT INTO QRTZ_RUN (%s) VALUES %s`
	idIncreaseSQL = `SELECT @@auto_increment_increment`

	holdersSQL = `
SELECT R.RUN_KEY, R.ID, COALESCE(R.ORIGIN, R.ID) AS ORIGIN, R.STATE IN ('PENDING', 'RUNNING') OR R.KEY_ONCE = 1 AS HELD
  FROM QRTZ_RUN R FORCE INDEX (QRTZ_RUN_KEY) WHERE R.RUN_KEY IN (?) AND R.JOB_ID = ? AND R.KEY_LIVE = 1`

	// The index has all of it: no lock is on the row.
	holderNowSQL = `SELECT ID FROM QRTZ_RUN FORCE INDEX (QRTZ_RUN_KEY) WHERE RUN_KEY = ? AND JOB_ID = ? AND KEY_LIVE = 1 LOCK IN SHARE MODE`

	freeKeySQL = `UPDATE QRTZ_RUN SET KEY_LIVE = NULL WHERE ID = ? AND STATE NOT IN ('PENDING', 'RUNNING') AND KEY_ONCE = 0`
)

// holder is a run that has a key.
type holder struct {
	Key    string `db:"RUN_KEY"`
	ID     int64  `db:"ID"`
	Origin int64  `db:"ORIGIN"`
	Held   bool   `db:"HELD"` // else a person ended the run by SQL, and left it its key
}

// jobKey is a key as it is unique: each job has keys of its own.
type jobKey struct {
	job int64
	key string
}

// Enqueue adds runs in the caller's transaction, and says in the same order what became of each. The caller has found the jobs
// in the app (execute.Store.JobNamed, CheckJob). If a job is deleted meanwhile, the misfire handler cancels the run. A run whose
// key is taken is not added; nor is the second of two that have the same key.
func (s *Store) Enqueue(ctx context.Context, tx *sqlx.Tx, now time.Time, runs ...New) ([]Added, error) {
	added := make([]Added, len(runs))
	var step int64
	if len(runs) > 1 {
		if err := s.db.On(tx).Get(ctx, &step, idIncreaseSQL); err != nil {
			return nil, err
		}
	}
	holders, err := s.holders(ctx, tx, runs)
	if err != nil {
		return nil, err
	}
	var rest []int // those to be added
	first := map[jobKey]int{}
	again := map[int]int{} // a run whose key an earlier one of the same call has
	for i, r := range runs {
		key := jobKey{r.JobID, r.Key}
		if r.Key == "" {
			rest = append(rest, i)
		} else if h, taken := holders[key]; taken {
			added[i] = Added{h.Origin, true}
		} else if earlier, has := first[key]; has {
			again[i] = earlier
		} else {
			first[key], rest = i, append(rest, i)
		}
	}
	for _, some := range bulks(runs, rest) {
		if err := s.insert(ctx, tx, now, step, runs, some, added); err != nil {
			return nil, err
		}
	}
	for i, earlier := range again {
		added[i] = Added{added[earlier].ID, true}
	}
	return added, nil
}

// bulks parts runs, given by their index, into those that one statement inserts.
func bulks(runs []New, indexes []int) (bulks [][]int) {
	begin, bytes := 0, 0
	for i, index := range indexes {
		own := len(runs[index].Data)
		if i > begin && (i-begin == runBatch || bytes+own > bulkBytes) {
			bulks, begin, bytes = append(bulks, indexes[begin:i]), i, 0
		}
		bytes += own
	}
	if begin < len(indexes) {
		bulks = append(bulks, indexes[begin:])
	}
	return bulks
}

// insert adds some of the runs by one statement. The server gives the rows of such a statement ids at equal distances, in order.
// If one of their keys was taken a moment ago, it adds them one by one.
func (s *Store) insert(ctx context.Context, tx *sqlx.Tx, now time.Time, step int64, runs []New, some []int, added []Added) error {
	rows := make([]New, len(some))
	for i, index := range some {
		rows[i] = runs[index]
	}
	query, args := s.insertion(now, rows...)
	done, err := s.db.On(tx).Exec(ctx, query, args...)
	if schema.DuplicateKey(err, s.db.Prefix, "QRTZ_RUN_KEY") {
		for i, index := range some {
			if added[index], err = s.insertOne(ctx, tx, now, rows[i]); err != nil {
				return err
			}
		}
		return nil
	}
	if err != nil {
		return schema.ExplainNoID(err, s.db.Prefix, "QRTZ_RUN")
	}
	id, err := done.LastInsertId()
	for i, index := range some {
		added[index] = Added{ID: id + int64(i)*step}
	}
	return err
}

// insertOne adds one run, unless its key is taken by now.
func (s *Store) insertOne(ctx context.Context, tx *sqlx.Tx, now time.Time, r New) (Added, error) {
	query, args := s.insertion(now, r)
	done, err := s.db.On(tx).Exec(ctx, query, args...)
	if !schema.DuplicateKey(err, s.db.Prefix, "QRTZ_RUN_KEY") {
		return addedBy(done, schema.ExplainNoID(err, s.db.Prefix, "QRTZ_RUN"))
	}
	var id int64
	if err := s.db.On(tx).Get(ctx, &id, holderNowSQL, r.Key, r.JobID); err != nil {
		return Added{}, fmt.Errorf("read which run has the key %q: %w", r.Key, err)
	}
	origin := id // unless the transaction's snapshot is older than that run: then the id of the attempt has to do
	err = s.db.On(tx).Get(ctx, &origin, originSQL, id, s.app)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return Added{}, err
	}
	return Added{origin, true}, nil
}

func addedBy(done sql.Result, err error) (Added, error) {
	if err != nil {
		return Added{}, err
	}
	id, err := done.LastInsertId()
	return Added{ID: id}, err
}

// insertion is the statement that adds runs.
func (s *Store) insertion(now time.Time, runs ...New) (query string, args []any) {
	columns, row := plainColumns, `(?, ?, ?, ?, ?)`
	plain := !slices.ContainsFunc(runs, func(r New) bool { return !r.plain() })
	if !plain {
		columns, row = ownColumns, `(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	}
	args = make([]any, 0, 11*len(runs))
	for _, r := range runs {
		due := now.UnixMilli()
		if !r.At.IsZero() {
			due = r.At.UnixMilli()
		}
		args = append(args, s.app, r.JobID, due, due, sql.NullString{String: string(r.Data), Valid: r.Data != nil})
		if plain {
			continue
		}
		live := sql.NullInt64{Int64: 1, Valid: r.Key != ""}
		timeout, attempts, priority := sql.NullInt64{}, sql.NullInt64{}, sql.NullInt64{}
		if r.Timeout != nil {
			timeout = sql.NullInt64{Int64: r.Timeout.Milliseconds(), Valid: true}
		}
		if r.Attempts != nil {
			attempts = sql.NullInt64{Int64: int64(*r.Attempts), Valid: true}
		}
		if r.Priority != nil {
			priority = sql.NullInt64{Int64: int64(*r.Priority), Valid: true}
		}
		args = append(args, schema.OrNull(r.Key), live, r.Once && r.Key != "", timeout, attempts, priority)
	}
	return fmt.Sprintf(enqueueSQL, columns, row+strings.Repeat(`, `+row, len(runs)-1)), args
}

// holders are the runs that have the keys of some new ones, without locks. A key of a run that a person ended by SQL is freed.
func (s *Store) holders(ctx context.Context, e schema.ExecQueryer, runs []New) (map[jobKey]holder, error) {
	keys := map[int64][]string{}
	for _, r := range runs {
		if r.Key != "" {
			keys[r.JobID] = append(keys[r.JobID], r.Key)
		}
	}
	holders := map[jobKey]holder{}
	for job, all := range keys {
		for some := range slices.Chunk(all, runBatch) {
			var found []holder
			if err := s.db.On(e).Select(ctx, &found, holdersSQL, some, job); err != nil {
				return nil, err
			}
			for _, h := range found {
				if h.Held {
					holders[jobKey{job, h.Key}] = h
				} else if _, err := s.db.On(e).Exec(ctx, freeKeySQL, h.ID); err != nil {
					return nil, err
				}
			}
		}
	}
	return holders, nil
}

const jobToEnqueueSQL = `
SELECT ` + schema.NowSQL + ` AS NOW_MICROS, @@character_set_client AS CHARSET, (SELECT ID FROM QRTZ_JOB WHERE APPLICATION = ? AND NAME = ?) AS JOB_ID`

// EnqueueAlone adds one run of a job, given by its name, by one statement that is a transaction by itself: no more than that is
// sent beside the question for the job, which locks nothing. It returns sql.ErrNoRows if the app has no such job. If the
// connection breaks before the answer is there, the error is schema.ErrCommitUnknown.
func (s *Store) EnqueueAlone(ctx context.Context, db *sqlx.DB, job string, r New) (added Added, err error) {
	err = schema.OnConn(ctx, db, func(conn *sqlx.Conn) error {
		var at struct {
			Micros  int64         `db:"NOW_MICROS"`
			Charset string        `db:"CHARSET"`
			JobID   sql.NullInt64 `db:"JOB_ID"`
		}
		if err := s.db.On(conn).Get(ctx, &at, jobToEnqueueSQL, s.app, job); err != nil {
			return err
		}
		if err := schema.SafeCharset(at.Charset); err != nil {
			return err
		}
		if !at.JobID.Valid {
			return sql.ErrNoRows
		}
		r.JobID = at.JobID.Int64
		query, args := s.insertion(time.UnixMicro(at.Micros), r)
		for tries := 1; ; tries++ {
			holders, err := s.holders(ctx, conn, []New{r})
			if err != nil {
				return err
			}
			if h, taken := holders[jobKey{r.JobID, r.Key}]; taken {
				added = Added{h.Origin, true}
				return nil
			}
			done, err := s.db.On(conn).ExecAlone(ctx, query, args...)
			if !schema.DuplicateKey(err, s.db.Prefix, "QRTZ_RUN_KEY") || tries == 3 {
				added, err = addedBy(done, schema.ExplainNoID(err, s.db.Prefix, "QRTZ_RUN"))
				return err
			}
		}
	})
	return added, err
}
