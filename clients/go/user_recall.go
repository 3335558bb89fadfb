package memoryd

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/memoryd/memoryd/clients/go/memorydpb"
)

const (
	// Of what is recalled unasked.
	mostRecalled    = 5
	lookedAt        = 50
	leastCosine     = 0.3
	queryCharacters = 8000
	shareOfLimit    = 0.1
	bytesOfToken    = 4
)

var humanRoles = []string{
	"user", "human", "customer", "client", "guest", "visitor", "caller", "person", "prompter",
	"end_user", "end-user", "end user", "human_message",
}

// isHuman reports whether the server reads the role as the human side (docs/POLICY.md).
func isHuman(role string) bool {
	return slices.ContainsFunc(humanRoles, func(one string) bool {
		return strings.EqualFold(one, role)
	})
}

// recalled adds what earlier messages say to the newest question of the reply.
func (c *Client) recalled(
	ctx context.Context, session string, reply *memorydpb.GetResponse, zone string, most int,
) (*UserContext, error) {
	asked := newestQuestion(reply)
	if asked < 0 || most < 1 {
		return &UserContext{GetResponse: reply}, nil
	}
	question := TextOf(reply.GetMessages()[asked])
	if utf8.RuneCountInString(question) > queryCharacters {
		question = string([]rune(question)[:queryCharacters])
	}
	found, err := c.Session(session).Query(ctx, question, TopK(lookedAt), Passages(),
		VectorThreshold(leastCosine), WithoutBlocks())
	if err != nil {
		return nil, err
	}
	hits := worthTelling(found.GetResults(), reply, session, most)
	if len(hits) > 0 {
		insert(reply, asked, recallText(hits, zoneOf(zone)))
	}
	return &UserContext{GetResponse: reply, Recalled: hits}, nil
}

// newestQuestion is the place of the newest message of a human that has words; -1 without one.
func newestQuestion(reply *memorydpb.GetResponse) int {
	messages := reply.GetMessages()
	for index := len(messages) - 1; index >= 0; index-- {
		one := messages[index]
		if one.GetMessageId() != "" && isHuman(one.GetRole()) && strings.TrimSpace(TextOf(one)) != "" {
			return index
		}
	}
	return -1
}

// worthTelling returns the best hits that the context does not hold, the oldest first.
func worthTelling(
	found []*Hit, reply *memorydpb.GetResponse, session string, most int,
) []*Hit {
	here, said := map[string]bool{}, map[string]bool{}
	for _, message := range reply.GetMessages() {
		if message.GetMessageId() != "" {
			here[message.GetMessageId()] = true
		}
		said[TextOf(message)] = true
	}
	room := int(float64(max(reply.GetLimit(), 0)) * shareOfLimit * bytesOfToken)
	var taken []*Hit
	for _, hit := range found {
		if len(taken) == most {
			break
		}
		message := hit.GetMessage()
		isHere := here[message.GetMessageId()]
		if hit.GetSessionId() != "" {
			isHere = message.GetSourceSessionId() == session && here[message.GetSourceMessageId()]
		}
		text := TextOfHit(hit)
		if isHere || strings.TrimSpace(text) == "" || said[text] || len(text) > room {
			continue
		}
		said[text] = true
		room -= len(text)
		taken = append(taken, hit)
	}
	slices.SortStableFunc(taken, func(one, other *Hit) int {
		return cmp.Compare(secondsOf(one), secondsOf(other))
	})
	return taken
}

// secondsOf is when a hit was said, for sorting; unknown ones first.
func secondsOf(hit *Hit) float64 {
	said := SaidAt(hit)
	if said.IsZero() {
		return 0
	}
	return float64(said.UnixMicro()) / 1e6
}

func zoneOf(name string) *time.Location {
	// `Local` is this machine's own, which no session means.
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return time.UTC
	}
	return zone
}

// recallText is what is recalled, in the form in which UpdateContext inserts it.
func recallText(hits []*Hit, zone *time.Location) string {
	var text strings.Builder
	text.WriteString("<memoryd_recall>\n")
	for _, hit := range hits {
		tag := "item"
		text.WriteString("<")
		if role := hit.GetMessage().GetRole(); role != "" {
			tag = "message"
			text.WriteString(`message role="` + attribute(role) + `"`)
		} else {
			text.WriteString("item")
		}
		if said := SaidAt(hit); !said.IsZero() {
			text.WriteString(` date="` + said.In(zone).Format(time.DateOnly) + `"`)
		}
		text.WriteString(">" + escaped(TextOfHit(hit)) + "</" + tag + ">\n")
	}
	text.WriteString("</memoryd_recall>")
	return text.String()
}

// Of Unicode's property Default_Ignorable_Code_Point, as the server has it, and its spaces.
const (
	invisible = `\x{ad}\x{34f}\x{61c}\x{115f}\x{1160}\x{17b4}\x{17b5}\x{180b}-\x{180f}\x{200b}-\x{200f}` +
		`\x{202a}-\x{202e}\x{2060}-\x{206f}\x{3164}\x{fe00}-\x{fe0f}\x{feff}\x{ffa0}\x{fff0}-\x{fff8}` +
		`\x{1bca0}-\x{1bca3}\x{1d173}-\x{1d17a}\x{e0000}-\x{e0fff}`
	spaces = `\t-\r\x{1c}-\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}` +
		`\x{3000}`
)

// A `<` of what a model may read as a tag of memory: in any case of letters, with spaces and what
// does not show.
var memoryTag = regexp.MustCompile(tagPattern())

func tagPattern() string {
	var tags []string
	for _, tag := range []string{"memoryd_memory", "memoryd_recall", "memoryd_block", "item", "message"} {
		// The case of `i` has two more letters.
		letters := strings.Split(strings.ReplaceAll(tag, "i", "I"), "")
		joined := strings.Join(letters, "["+invisible+"]*")
		tags = append(tags, strings.ReplaceAll(joined, "I", `[i\x{130}\x{131}]`))
	}
	return `(?i)<([/` + spaces + invisible + `]*(?:` + strings.Join(tags, "|") + `))`
}

func escaped(text string) string { return memoryTag.ReplaceAllString(text, "&lt;$1") }

func attribute(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", `"`, "&quot;").Replace(text)
}

// insert puts a message of its own ahead of the one at index, of its role.
func insert(reply *memorydpb.GetResponse, index int, text string) {
	made := &Message{Role: reply.GetMessages()[index].GetRole(), Text: proto.String(text)}
	reply.Messages = slices.Insert(reply.GetMessages(), index, made)
	reply.TokenCount += int64((len(text) + bytesOfToken - 1) / bytesOfToken)
}
