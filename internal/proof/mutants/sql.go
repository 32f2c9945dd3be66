package main

import (
	"regexp"
	"slices"
	"strings"
)

// piece is a part of a text of SQL that is put together from several: a literal of its own, which can be changed, or what is
// known of another text, which cannot be changed here.
type piece struct {
	text    string
	literal bool
	opaque  bool // nothing is known of it
}

// sqlChange is one mutation of a text of SQL.
type sqlChange struct {
	kind          string
	before, after string
	edits         []sqlEdit
}

// sqlEdit replaces a range of one piece.
type sqlEdit struct {
	piece, from, to int
	text            string
}

// word is a token of SQL, or a group in parentheses.
type word struct {
	text            string
	piece, from, to int
	group           []word // what is between the parentheses, if text is "("
	closing         *word
}

func (w *word) last() *word {
	if w.closing != nil {
		return w.closing
	}
	return w
}

func (w *word) is(keywords ...string) bool { return slices.Contains(keywords, w.text) }

var (
	sqlWord = regexp.MustCompile(`'(?:[^'\\]|\\.)*'|` + "`[^`]*`" + `|<=>|<=|>=|<>|!=|@{0,2}[A-Za-z_][A-Za-z_0-9.$]*|[0-9]+|%[a-z]|\S`)

	// looksLikeSQL are words that only texts of SQL have in capitals.
	looksLikeSQL = regexp.MustCompile(`\b(SELECT|UPDATE|DELETE|INSERT|WHERE|AND|OR|JOIN|ORDER BY|FOR UPDATE|SET)\b`)
)

// separators end an expression.
var separators = []string{
	",", "SELECT", "FROM", "WHERE", "ON", "HAVING", "SET", "GROUP", "ORDER", "BY", "LIMIT", "OFFSET", "FOR", "UNION", "ALL", "JOIN", "STRAIGHT_JOIN",
	"LEFT", "INNER", "CROSS", "LOCK", "INTO", "AS", "CASE", "WHEN", "THEN", "ELSE", "END", "INSERT", "UPDATE", "DELETE", "IGNORE",
	"KEY", "DUPLICATE", "FORCE", "DISTINCT", ";", "%s",
}

// sqlChanges lists the mutations of a text of SQL: predicates that are left out, comparisons and limits that are moved, locks that are
// not taken, orders that are reversed, columns that are not set.
func sqlChanges(pieces []piece) []sqlChange {
	p := &sqlParser{pieces: pieces}
	p.scan()
	p.level(p.groups(nil))
	return p.found
}

type sqlParser struct {
	pieces []piece
	words  []word
	at     int
	found  []sqlChange
}

func (p *sqlParser) scan() {
	for i, part := range p.pieces {
		if part.opaque {
			p.words = append(p.words, word{text: "…", piece: i, to: len(part.text)})
			continue
		}
		for _, m := range sqlWord.FindAllStringIndex(part.text, -1) {
			p.words = append(p.words, word{text: part.text[m[0]:m[1]], piece: i, from: m[0], to: m[1]})
		}
	}
}

// groups puts what is in parentheses into the word of the opening one.
func (p *sqlParser) groups(open *word) (level []word) {
	for p.at < len(p.words) {
		w := p.words[p.at]
		p.at++
		switch w.text {
		case "(":
			w.group = p.groups(&w)
			level = append(level, w)
		case ")":
			if open != nil {
				open.closing = &w
				return level
			}
			level = append(level, w)
		default:
			level = append(level, w)
		}
	}
	return level
}

// level finds the mutations of what is between two parentheses, and of the groups within.
func (p *sqlParser) level(words []word) {
	start := 0
	for i := range words {
		w := &words[i]
		p.level(w.group)
		p.comparison(w)
		p.limit(words, i)
		p.order(words, i)
		p.locking(words, i)
		p.assignments(words, i)
		if w.is(separators...) {
			p.expression(words[start:i])
			start = i + 1
		}
	}
	p.expression(words[start:])
}

// expression finds the operands of AND and OR.
func (p *sqlParser) expression(words []word) {
	ors := split(words, "OR")
	for _, or := range ors {
		ands := split(or, "AND")
		if len(ands) < 2 {
			continue
		}
		for _, operand := range ands {
			p.wrap(operand, "predicate removed", "(1 = 1 OR (", "))", "true")
		}
	}
	if len(ors) > 1 {
		for _, operand := range ors {
			p.wrap(operand, "alternative removed", "(1 = 0 AND (", "))", "false")
		}
	}
}

// split parts words at a keyword. The AND of a BETWEEN does not part.
func split(words []word, keyword string) (parts [][]word) {
	start, between := 0, false
	for i := range words {
		switch {
		case words[i].is("BETWEEN"):
			between = true
		case words[i].is("AND") && between:
			between = false
		case words[i].is(keyword):
			parts, start = append(parts, words[start:i]), i+1
		}
	}
	return append(parts, words[start:])
}

func (p *sqlParser) wrap(operand []word, kind, open, closing, after string) {
	if len(operand) == 0 {
		return
	}
	first, last := operand[0], operand[len(operand)-1].last()
	from, ok := p.before(first)
	to, too := p.behind(*last)
	if !ok || !too {
		return
	}
	from.text, to.text = open, closing
	p.add(kind, p.between(first, *last), after, from, to)
}

// before is the place in a literal in front of a word: where the word is, or the end of the literal before it.
func (p *sqlParser) before(w word) (sqlEdit, bool) {
	switch {
	case p.pieces[w.piece].literal:
		return sqlEdit{piece: w.piece, from: w.from, to: w.from}, true
	case w.piece > 0 && p.pieces[w.piece-1].literal && strings.TrimSpace(p.pieces[w.piece].text[:w.from]) == "":
		end := len(p.pieces[w.piece-1].text)
		return sqlEdit{piece: w.piece - 1, from: end, to: end}, true
	}
	return sqlEdit{}, false
}

func (p *sqlParser) behind(w word) (sqlEdit, bool) {
	switch {
	case p.pieces[w.piece].literal:
		return sqlEdit{piece: w.piece, from: w.to, to: w.to}, true
	case w.piece+1 < len(p.pieces) && p.pieces[w.piece+1].literal && strings.TrimSpace(p.pieces[w.piece].text[w.to:]) == "":
		return sqlEdit{piece: w.piece + 1}, true
	}
	return sqlEdit{}, false
}

// between is the text from one word to another.
func (p *sqlParser) between(first, last word) string {
	if first.piece == last.piece {
		return p.pieces[first.piece].text[first.from:last.to]
	}
	var text strings.Builder
	text.WriteString(p.pieces[first.piece].text[first.from:])
	for i := first.piece + 1; i < last.piece; i++ {
		text.WriteString(p.pieces[i].text)
	}
	text.WriteString(p.pieces[last.piece].text[:last.to])
	return text.String()
}

func (p *sqlParser) add(kind, before, after string, edits ...sqlEdit) {
	p.found = append(p.found, sqlChange{kind: kind, before: oneLine(before), after: oneLine(after), edits: edits})
}

// comparison moves a bound.
func (p *sqlParser) comparison(w *word) {
	moved := map[string]string{"<": "<=", "<=": "<", ">": ">=", ">=": ">", "<=>": "="}[w.text]
	if moved != "" && p.pieces[w.piece].literal {
		p.add("comparison moved", p.around(*w, w.text), p.around(*w, moved), sqlEdit{w.piece, w.from, w.to, moved})
	}
}

// around is a word in its surroundings, written otherwise.
func (p *sqlParser) around(w word, text string) string {
	whole := p.pieces[w.piece].text
	return lastWords(whole[:w.from]) + text + firstWords(whole[w.to:])
}

var edgeWords = regexp.MustCompile(`^\s*\S+|\S+\s*$`)

func lastWords(s string) string {
	all := edgeWords.FindAllString(s, -1)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}

func firstWords(s string) string {
	if all := edgeWords.FindAllString(s, 1); len(all) > 0 {
		return all[0]
	}
	return ""
}

// limit lets one more row pass.
func (p *sqlParser) limit(words []word, i int) {
	if !words[i].is("LIMIT") || i+1 == len(words) {
		return
	}
	n := words[i+1]
	if p.pieces[n.piece].literal && n.text >= "1" && n.text <= "9" && len(n.text) == 1 {
		more := string(n.text[0] + 1)
		p.add("limit moved", "LIMIT "+n.text, "LIMIT "+more, sqlEdit{n.piece, n.from, n.to, more})
	}
}

// order reverses an order.
func (p *sqlParser) order(words []word, i int) {
	if !words[i].is("ORDER") || i+2 >= len(words) || !words[i+1].is("BY") {
		return
	}
	end := i + 2
	for end < len(words) && (words[end].is(",") || !words[end].is(separators...)) {
		end++
	}
	keys := words[i+2 : end]
	var edits []sqlEdit
	start := 0
	for k := 0; k <= len(keys); k++ {
		if k < len(keys) && !keys[k].is(",") {
			continue
		}
		if k == start {
			return
		}
		last := *keys[k-1].last()
		switch e, ok := p.behind(last); {
		case !ok:
			return
		case last.is("DESC"):
			if !p.pieces[last.piece].literal {
				return
			}
			edits = append(edits, sqlEdit{last.piece, last.from, last.to, ""})
		default:
			e.text = " DESC"
			edits = append(edits, e)
		}
		start = k + 1
	}
	if len(keys) > 0 {
		text := "ORDER BY " + p.between(keys[0], *keys[len(keys)-1].last())
		p.add("order reversed", text, "reversed", edits...)
	}
}

// locking leaves a lock out, or waits for those of others.
func (p *sqlParser) locking(words []word, i int) {
	n := 0
	switch has := func(text ...string) bool {
		for k, t := range text {
			if i+k >= len(words) || words[i+k].text != t || words[i+k].piece != words[i].piece {
				return false
			}
		}
		return p.pieces[words[i].piece].literal
	}; {
	case has("SKIP", "LOCKED"):
		n = 2
	case has("FOR", "UPDATE", "SKIP", "LOCKED"):
		n = 4
	case has("FOR", "UPDATE"):
		n = 2
	case has("LOCK", "IN", "SHARE", "MODE"):
		n = 4
	default:
		return
	}
	first, last := words[i], words[i+n-1]
	p.add("lock removed", p.between(first, last), "none", sqlEdit{first.piece, first.from, last.to, ""})
}

// assignments has columns keep what they hold.
func (p *sqlParser) assignments(words []word, i int) {
	set := words[i].is("SET") || words[i].is("UPDATE") && i > 0 && words[i-1].is("KEY")
	if !set {
		return
	}
	rest := words[i+1:]
	for k := range rest {
		if rest[k].is("WHERE", "ORDER", "LIMIT", ";") {
			rest = rest[:k]
			break
		}
	}
	for _, a := range split(rest, ",") {
		if len(a) < 3 || !a[1].is("=") || !p.pieces[a[0].piece].literal || strings.HasPrefix(a[0].text, "@") || strings.HasPrefix(a[0].text, "%") {
			continue
		}
		from, ok := p.before(a[2])
		last := *a[len(a)-1].last()
		to, too := p.behind(last)
		if whole := p.between(a[0], last); ok && too && !strings.HasSuffix(whole, "= "+a[0].text) {
			from.text, to.text = "IF(1 = 1, "+a[0].text+", ", ")"
			p.add("column not set", whole, a[0].text+" = "+a[0].text, from, to)
		}
	}
}

var blanks = regexp.MustCompile(`\s+`)

func oneLine(s string) string { return strings.TrimSpace(blanks.ReplaceAllString(s, " ")) }
